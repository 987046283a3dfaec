#include "framework/nn/layer_norm.h"

namespace zerolab::nn {
namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

LayerNorm::LayerNorm(const Scope& scope, int64_t size, bool bias)
    : Module(scope),
      weight_(add_parameter(scope, "weight", Shape{size}, Init::ones())),
      bias_(bias ? &add_parameter(scope, "bias", Shape{size}, Init::zeros()) : nullptr) {}

Tensor LayerNorm::forward(const Tensor& x) const {
  const ModuleScope running(x.context(), name());
  return ops::layer_norm(x, weight_.tensor(), bias(), kEpsilon);
}

ops::NormalizedSum LayerNorm::forward_sum(const Tensor& a, const Tensor& b) const {
  const ModuleScope running(a.context(), name());
  return ops::add_layer_norm(a, b, weight_.tensor(), bias(), kEpsilon);
}

}  // namespace zerolab::nn
