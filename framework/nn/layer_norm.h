#pragma once

#include "framework/nn/module.h"

namespace zerolab::nn {

/// Layer norm over the last extent, with epsilon 1e-5 as GPT-2's.
class LayerNorm final : public Module {
 public:
  LayerNorm(const Scope& scope, int64_t size, bool bias);
  Tensor forward(const Tensor& x) const;

 private:
  Parameter& weight_;
  Parameter* bias_;  ///< null: none
};

}  // namespace zerolab::nn
