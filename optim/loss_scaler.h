#pragma once

#include <tuple>

namespace zerolab::optim {

/// The loss is multiplied by a scale before the backward, so that small gradients do not vanish in
/// fp16. Static: one scale for ever. Dynamic: halved when gradients overflow, doubled after
/// `window` steps without (Micikevicius et al., "Mixed Precision Training", ICLR 2018, §3.2); the
/// names and defaults are DeepSpeed's.
struct LossScaleOptions {
  bool dynamic = false;
  double initial = 1.0;  ///< the scale of the first step, and of all steps when static
  int window = 1000;     ///< steps without overflow before the scale doubles
  int hysteresis = 2;    ///< this overflow, and every one after it, halves the scale
  double minimum = 1.0;

  /// References to all fields, in order.
  static auto fields_of(auto& options) {
    auto& [dynamic, initial, window, hysteresis, minimum] = options;
    return std::tie(dynamic, initial, window, hysteresis, minimum);
  }
};

/// What fp16 training starts with.
constexpr LossScaleOptions dynamic_loss_scale() { return {.dynamic = true, .initial = 65536.0}; }

class LossScaler {
 public:
  /// Throws `ConfigError` for a scale, window or hysteresis that is not positive.
  explicit LossScaler(const LossScaleOptions& options);

  /// What the next backward multiplies by, and its step divides by.
  double scale() const { return state_.scale; }
  /// A further overflow cannot be answered with a smaller scale.
  bool exhausted() const;
  /// After each step: whether its gradients overflowed.
  void update(bool overflow);

  /// What the next scales follow from, beside the options.
  struct State {
    bool dynamic = false;
    double scale = 1.0;
    int hysteresis_left = 0;
    int good_steps = 0;  ///< since the last overflow or change
    bool operator==(const State&) const = default;
  };
  const State& state() const { return state_; }
  /// Goes on from there, if both scales are dynamic; else this one starts as its options say.
  void resume(const State& state);

 private:
  const LossScaleOptions options_;
  State state_;
};

}  // namespace zerolab::optim
