#pragma once

namespace zerolab::optim {

/// The loss is multiplied by a scale before the backward, so that small gradients do not vanish in
/// fp16. Static: one scale for ever. Dynamic: halved when gradients overflow, doubled after a while
/// without (Micikevicius et al., "Mixed Precision Training", ICLR 2018, §3.2); the names and
/// defaults are DeepSpeed's.
struct LossScaleOptions {
  bool dynamic = false;
  double initial = 1.0;  ///< the scale of the first step, and of all steps when static
  int window = 1000;     ///< steps without overflow before the scale doubles
  int hysteresis = 2;    ///< overflows before the scale halves
  double minimum = 1.0;
};

/// What fp16 training starts with.
constexpr LossScaleOptions dynamic_loss_scale() { return {.dynamic = true, .initial = 65536.0}; }

class LossScaler {
 public:
  /// Throws `ConfigError` for a scale, window or hysteresis that is not positive.
  explicit LossScaler(const LossScaleOptions& options);

  /// What the next backward multiplies by, and its step divides by.
  double scale() const { return scale_; }
  /// A further overflow cannot be answered with a smaller scale.
  bool exhausted() const;
  /// After each step: whether its gradients overflowed.
  void update(bool overflow);

 private:
  const LossScaleOptions options_;
  double scale_;
  int hysteresis_left_;
  int good_steps_ = 0;  ///< since the last overflow or change
};

}  // namespace zerolab::optim
