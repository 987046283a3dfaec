#include "framework/ops/positions.h"

#include "framework/autograd/node.h"
#include "framework/kernels/strided_copy.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {

Tensor mean_positions(const Tensor& x) {
  require_float("mean_positions", "x", x);
  const Shape& shape = x.shape();
  require(shape.rank() == 3 && shape[1] > 0, "mean_positions",
          "x must be [B, T, C] with a position; got {}", shape.to_string());
  RankContext& context = autograd::begin_op("mean_positions", {x});
  const Tensor out = Tensor::empty(context, Shape{shape[0], shape[2]}, x.dtype());
  context.backend().mean_positions(context.compute(), x, out);
  return autograd::record(
      "mean_positions", out, {x}, [shape](const Tensor& dy, autograd::Gradients& gradients) {
        RankContext& context = dy.context();
        const Tensor of_each = Tensor::empty_like(dy);
        context.backend().scale(context.compute(), dy, 1.0 / static_cast<double>(shape[1]), of_each,
                                false);
        const autograd::Destination dx = gradients.destination(0);
        const int64_t cols = shape[2];
        const StridedCopy repeat = {.extents = {1, shape[0], shape[1], cols},
                                    .source = {.strides = {0, cols, 0, 1}},
                                    .out = {.strides = {0, shape[1] * cols, cols, 1}}};
        context.backend().copy_strided(context.compute(), of_each, repeat, dx.tensor,
                                       dx.accumulate);
      });
}

}  // namespace zerolab::ops
