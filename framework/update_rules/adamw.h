#pragma once

#include <array>
#include <cmath>
#include <string_view>

#include "framework/update_rules/arithmetic.h"
#include "framework/update_rules/settings.h"

namespace zerolab {

/// PyTorch's AdamW, in the order of its operations (Loshchilov & Hutter, "Decoupled Weight Decay
/// Regularization", ICLR 2019, algorithm 2).
class AdamW {
 public:
  static constexpr std::string_view kName = "adamw";
  static constexpr std::array<std::string_view, 2> kStates = {"exp_avg", "exp_avg_sq"};

  explicit AdamW(const UpdateSettings& settings) {
    const auto step = static_cast<double>(settings.step);
    const double correction1 = 1.0 - std::pow(settings.beta1, step);
    const double correction2 = 1.0 - std::pow(settings.beta2, step);
    decay_ = static_cast<float>(1.0 - settings.learning_rate * settings.weight_decay);
    one_minus_beta1_ = static_cast<float>(1.0 - settings.beta1);
    beta2_ = static_cast<float>(settings.beta2);
    one_minus_beta2_ = static_cast<float>(1.0 - settings.beta2);
    sqrt_correction2_ = static_cast<float>(std::sqrt(correction2));
    epsilon_ = static_cast<float>(settings.epsilon);
    step_size_ = static_cast<float>(settings.learning_rate / correction1);
  }

  template <typename Number>
  ZEROLAB_HOST_DEVICE void operator()(Number g, Number& parameter, Number* states) const {
    Number& m = states[0];
    Number& v = states[1];
    m = m + (g - m) * one_minus_beta1_;
    v = v * beta2_ + one_minus_beta2_ * g * g;
    const Number denominator = square_root(v) / sqrt_correction2_ + epsilon_;
    parameter = parameter * decay_ - step_size_ * m / denominator;
  }

 private:
  float decay_;
  float one_minus_beta1_;
  float beta2_;
  float one_minus_beta2_;
  float sqrt_correction2_;
  float epsilon_;
  float step_size_;
};

}  // namespace zerolab
