#include "framework/ops/embedding.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {
namespace {

Shape with_appended(const Shape& shape, int64_t cols) {
  switch (shape.rank()) {
    case 1:
      return {shape[0], cols};
    case 2:
      return {shape[0], shape[1], cols};
    default:
      fail("embedding", "wrong shape of indices; got {}, expected one or two extents",
           shape.to_string());
  }
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& table) {
  require_dtype("embedding", "indices", indices, DType::kInt32);
  require_float("embedding", "table", table);
  require(table.shape().rank() == 2, "embedding", "wrong shape of table; got {}, expected [V, C]",
          table.shape().to_string());

  RankContext& context = autograd::begin_op("embedding", {indices, table});
  const Tensor out =
      Tensor::empty(context, with_appended(indices.shape(), table.shape().cols()), table.dtype());
  context.backend().embedding_forward(context.compute(), indices, table, out);
  if (!autograd::records({table})) {
    return out;
  }
  return autograd::record(
      "embedding", out, {table}, [indices](const Tensor& dy, autograd::Gradients& gradients) {
        const autograd::Destination dtable = gradients.parameter_destination(0);
        dy.context().backend().embedding_backward(dy.context().compute(), indices, dy,
                                                  dtable.tensor, dtable.accumulate);
      });
}

}  // namespace zerolab::ops
