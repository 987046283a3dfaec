#include "framework/nn/linear.h"

#include "framework/ops/linear.h"

namespace zerolab::nn {

Linear::Linear(const Scope& scope, int64_t in, int64_t out, bool bias, double stddev)
    : Module(scope),
      weight_(add_parameter(scope, "weight", Shape{in, out}, Init::normal(stddev))),
      bias_(bias ? &add_parameter(scope, "bias", Shape{out}, Init::zeros()) : nullptr) {}

Tensor Linear::forward(const Tensor& x) const {
  const ModuleScope running(x.context(), name());
  return ops::linear(x, weight_.tensor(), bias());
}

Tensor Linear::forward_gelu(const Tensor& x) const {
  const ModuleScope running(x.context(), name());
  return ops::linear_gelu(x, weight_.tensor(), bias());
}

}  // namespace zerolab::nn
