#pragma once

#include <array>
#include <string_view>

#include "framework/update_rules/arithmetic.h"
#include "framework/update_rules/settings.h"

namespace zerolab {

/// Lion: every element moves by the learning rate, in the direction of a mean of its gradients
/// (Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023, algorithm 2). One
/// state where AdamW has two.
class Lion {
 public:
  static constexpr std::string_view kName = "lion";
  static constexpr std::array<std::string_view, 1> kStates = {"exp_avg"};

  explicit Lion(const UpdateSettings& settings)
      : learning_rate_(static_cast<float>(settings.learning_rate)),
        decay_(static_cast<float>(1.0 - settings.learning_rate * settings.weight_decay)),
        beta1_(static_cast<float>(settings.beta1)),
        one_minus_beta1_(static_cast<float>(1.0 - settings.beta1)),
        beta2_(static_cast<float>(settings.beta2)),
        one_minus_beta2_(static_cast<float>(1.0 - settings.beta2)) {}

  template <typename Number>
  ZEROLAB_HOST_DEVICE void operator()(Number g, Number& parameter, Number* states) const {
    Number& m = states[0];
    const Number direction = sign(m * beta1_ + g * one_minus_beta1_);
    parameter = parameter * decay_ - learning_rate_ * direction;
    m = m * beta2_ + g * one_minus_beta2_;
  }

 private:
  float learning_rate_;
  float decay_;
  float beta1_;
  float one_minus_beta1_;
  float beta2_;
  float one_minus_beta2_;
};

}  // namespace zerolab
