#pragma once

#include "framework/nn/module.h"

namespace zerolab::nn {

/// x · weight + bias, with the weight as [in, out] (GPT-2's Conv1D). The bias starts at zero.
class Linear final : public Module {
 public:
  Linear(const Scope& scope, int64_t in, int64_t out, bool bias, double stddev);
  Tensor forward(const Tensor& x) const;
  /// The GELU of `forward`.
  Tensor forward_gelu(const Tensor& x) const;

 private:
  Tensor bias() const { return bias_ == nullptr ? Tensor() : bias_->tensor(); }

  Parameter& weight_;
  Parameter* bias_;  ///< null: none
};

}  // namespace zerolab::nn
