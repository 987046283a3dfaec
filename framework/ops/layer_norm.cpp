#include "framework/ops/layer_norm.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/ops/rules.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {
namespace {

void check_layer_norm(std::string_view op, const Tensor& x, const Tensor& weight,
                      const Tensor& bias) {
  require(x.shape().rank() >= 1 && x.shape().cols() > 0, op, "x must have a last extent; got {}",
          x.shape().to_string());
  require_like(op, "weight", weight, Shape{x.shape().cols()}, x.dtype());
  if (bias.defined()) {
    require_like(op, "bias", bias, Shape{x.shape().cols()}, x.dtype());
  }
}

struct Statistics {
  Tensor mean;
  Tensor rstd;
};
Statistics empty_statistics(RankContext& context, const Tensor& x) {
  const Tensor mean = Tensor::empty(context, Shape{x.shape().rows()}, statistics_type(x.dtype()));
  return {mean, Tensor::empty_like(mean)};
}

Tensor record_layer_norm(const Tensor& out, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, const Statistics& statistics) {
  return autograd::record("layer_norm", out, {x, weight, bias},
                          [x = x.detached(), weight = weight.detached(), statistics](
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
                                  compute, x, statistics.mean, statistics.rstd, dy, dweight.tensor,
                                  dweight.accumulate, dbias.tensor, dbias.accumulate);
                            }
                            if (gradients.needed(0)) {
                              const autograd::Destination dx = gradients.destination(0);
                              backend.layer_norm_backward_input(compute, x, weight, statistics.mean,
                                                                statistics.rstd, dy, dx.tensor,
                                                                dx.accumulate);
                            }
                          });
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  require_float("layer_norm", "x", x);
  check_layer_norm("layer_norm", x, weight, bias);
  RankContext& context = autograd::begin_op("layer_norm", {x, weight, bias});
  const Tensor out = Tensor::empty_like(x);
  const Statistics statistics = empty_statistics(context, x);
  context.backend().layer_norm_forward(context.compute(), x, weight, bias, epsilon, out,
                                       statistics.mean, statistics.rstd);
  return record_layer_norm(out, x, weight, bias, statistics);
}

NormalizedSum add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight,
                             const Tensor& bias, double epsilon) {
  require_float("add_layer_norm", "a", a);
  require_like("add_layer_norm", "b", b, a.shape(), a.dtype());
  check_layer_norm("add_layer_norm", a, weight, bias);
  RankContext& context = autograd::begin_op("add_layer_norm", {a, b, weight, bias});
  const Tensor sum = Tensor::empty_like(a);
  const Tensor out = Tensor::empty_like(a);
  const Statistics statistics = empty_statistics(context, a);
  context.backend().add_layer_norm_forward(context.compute(), a, b, weight, bias, epsilon, sum, out,
                                           statistics.mean, statistics.rstd);
  const Tensor recorded_sum = record_add(sum, a, b);
  return {recorded_sum, record_layer_norm(out, recorded_sum, weight, bias, statistics)};
}

}  // namespace zerolab::ops
