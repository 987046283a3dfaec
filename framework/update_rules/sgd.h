#pragma once

#include <array>
#include <string_view>

#include "framework/update_rules/arithmetic.h"
#include "framework/update_rules/settings.h"

namespace zerolab {

/// PyTorch's SGD. Weight decay is part of the gradient.
class Sgd {
 public:
  static constexpr std::string_view kName = "sgd";
  static constexpr std::array<std::string_view, 0> kStates = {};
  static bool is_for(const UpdateSettings& settings) { return settings.momentum == 0.0; }

  explicit Sgd(const UpdateSettings& settings)
      : learning_rate_(static_cast<float>(settings.learning_rate)),
        weight_decay_(static_cast<float>(settings.weight_decay)) {}

  template <typename Number>
  ZEROLAB_HOST_DEVICE void operator()(Number g, Number& parameter, Number* /*states*/) const {
    parameter -= learning_rate_ * (g + weight_decay_ * parameter);
  }

 private:
  float learning_rate_;
  float weight_decay_;
};

/// The same with momentum, which is state.
class MomentumSgd {
 public:
  static constexpr std::string_view kName = "sgd";
  static constexpr std::array<std::string_view, 1> kStates = {"momentum"};
  static bool is_for(const UpdateSettings& settings) { return settings.momentum != 0.0; }

  explicit MomentumSgd(const UpdateSettings& settings)
      : learning_rate_(static_cast<float>(settings.learning_rate)),
        weight_decay_(static_cast<float>(settings.weight_decay)),
        momentum_(static_cast<float>(settings.momentum)) {}

  template <typename Number>
  ZEROLAB_HOST_DEVICE void operator()(Number g, Number& parameter, Number* states) const {
    Number& step = states[0];
    step = step * momentum_ + (g + weight_decay_ * parameter);
    parameter -= learning_rate_ * step;
  }

 private:
  float learning_rate_;
  float weight_decay_;
  float momentum_;
};

}  // namespace zerolab
