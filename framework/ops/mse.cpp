#include "framework/ops/mse.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {

Tensor mse(const Tensor& prediction, const Tensor& target) {
  require_float("mse", "prediction", prediction);
  require_like("mse", "target", target, prediction.shape(), prediction.dtype());
  require(prediction.numel() > 0, "mse", "the mean of nothing; got prediction {}",
          prediction.shape().to_string());

  RankContext& context = autograd::begin_op("mse", {prediction, target});
  const Tensor loss = Tensor::empty(context, Shape{}, statistics_type(prediction.dtype()));
  context.backend().mse_forward(context.compute(), prediction, target, loss);
  if (!autograd::records({prediction})) {
    return loss;
  }
  return autograd::record("mse", loss, {prediction},
                          [prediction = prediction.detached(), target = target.detached()](
                              const Tensor& dloss, autograd::Gradients& gradients) {
                            const autograd::Destination out = gradients.destination(0);
                            dloss.context().backend().mse_backward(dloss.context().compute(), dloss,
                                                                   prediction, target, out.tensor,
                                                                   out.accumulate);
                          });
}

}  // namespace zerolab::ops
