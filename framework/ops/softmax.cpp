#include "framework/ops/softmax.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {

Tensor softmax(const Tensor& x) {
  require_float("softmax", "x", x);
  require(x.shape().rank() >= 1, "softmax", "x must have rows; got a scalar");
  RankContext& context = autograd::begin_op("softmax", {x});
  const Tensor out = Tensor::empty_like(x);
  context.backend().softmax_forward(context.compute(), x, out);
  if (!autograd::records({x})) {
    return out;
  }
  return autograd::record("softmax", out, {x},
                          [saved = out](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            dy.context().backend().softmax_backward(dy.context().compute(), saved,
                                                                    dy, dx.tensor, dx.accumulate);
                          });
}

}  // namespace zerolab::ops
