#include "framework/ops/layer_norm.h"

#include "framework/autograd/node.h"
#include "framework/core/backend.h"
#include "framework/core/rank_context.h"
#include "framework/ops/check.h"

namespace zerolab::ops {

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  require_float("layer_norm", "x", x);
  require(x.shape().rank() >= 1 && x.shape().cols() > 0, "layer_norm",
          "x must have a last extent; got {}", x.shape().to_string());
  require_like("layer_norm", "weight", weight, Shape{x.shape().cols()}, x.dtype());
  if (bias.defined()) {
    require_like("layer_norm", "bias", bias, Shape{x.shape().cols()}, x.dtype());
  }

  RankContext& context = autograd::begin_op("layer_norm", {x, weight, bias});
  const Tensor out = Tensor::empty_like(x);
  const Tensor mean = Tensor::empty(context, Shape{x.shape().rows()}, statistics_type(x.dtype()));
  const Tensor rstd = Tensor::empty_like(mean);
  context.backend().layer_norm_forward(context.compute(), x, weight, bias, epsilon, out, mean,
                                       rstd);
  if (!autograd::records({x, weight, bias})) {
    return out;
  }
  return autograd::record("layer_norm", out, {x, weight, bias},
                          [x = x.detached(), weight = weight.detached(), mean, rstd](
                              const Tensor& dy, autograd::Gradients& gradients) {
                            Backend& backend = dy.context().backend();
                            Stream& compute = dy.context().compute();
                            autograd::Destination dweight;
                            autograd::Destination dbias;
                            if (gradients.needed(2)) {  // the earlier bucket's first
                              dbias = gradients.parameter_destination(2);
                            }
                            if (gradients.needed(1)) {
                              dweight = gradients.parameter_destination(1);
                            }
                            if (dweight.tensor.defined() || dbias.tensor.defined()) {
                              backend.layer_norm_backward_parameters(
                                  compute, x, mean, rstd, dy, dweight.tensor, dweight.accumulate,
                                  dbias.tensor, dbias.accumulate);
                            }
                            if (gradients.needed(0)) {
                              const autograd::Destination dx = gradients.destination(0);
                              backend.layer_norm_backward_input(compute, x, weight, mean, rstd, dy,
                                                                dx.tensor, dx.accumulate);
                            }
                          });
}

}  // namespace zerolab::ops
