#pragma once

#include "framework/nn/module.h"
#include "framework/ops/layer_norm.h"

namespace zerolab::nn {

/// Layer norm over the last extent, with epsilon 1e-5 as GPT-2's.
class LayerNorm final : public Module {
 public:
  LayerNorm(const Scope& scope, int64_t size, bool bias);
  Tensor forward(const Tensor& x) const;
  /// a + b, and its `forward`.
  ops::NormalizedSum forward_sum(const Tensor& a, const Tensor& b) const;

 private:
  Tensor bias() const { return bias_ == nullptr ? Tensor() : bias_->tensor(); }

  Parameter& weight_;
  Parameter* bias_;  ///< null: none
};

}  // namespace zerolab::nn
