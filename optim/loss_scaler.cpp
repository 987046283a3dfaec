#include "optim/loss_scaler.h"

#include <algorithm>

#include "framework/core/error.h"

namespace zerolab::optim {
namespace {

constexpr double kFactor = 2.0;  // a power of two scales without rounding

}  // namespace

LossScaler::LossScaler(const LossScaleOptions& options)
    : options_(options), scale_(options.initial), hysteresis_left_(options.hysteresis) {
  if (options.initial <= 0.0 || options.minimum <= 0.0 || options.window < 1 ||
      options.hysteresis < 1) {
    throw ConfigError(
        "loss_scale",
        fmt::format("scale, minimum, window and hysteresis must be positive; got {}, "
                    "{}, {}, {}",
                    options.initial, options.minimum, options.window, options.hysteresis));
  }
}

bool LossScaler::exhausted() const {
  return options_.dynamic && hysteresis_left_ == 1 && scale_ <= options_.minimum;
}

void LossScaler::update(bool overflow) {
  if (!options_.dynamic) {
    return;
  }
  if (overflow) {
    good_steps_ = 0;
    if (hysteresis_left_ > 1) {
      --hysteresis_left_;
    } else {
      scale_ = std::max(scale_ / kFactor, options_.minimum);
    }
  } else if (++good_steps_ == options_.window) {
    good_steps_ = 0;
    hysteresis_left_ = options_.hysteresis;
    scale_ *= kFactor;
  }
}

}  // namespace zerolab::optim
