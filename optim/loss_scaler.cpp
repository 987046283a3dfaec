#include "optim/loss_scaler.h"

#include <algorithm>

#include "framework/core/error.h"

namespace zerolab::optim {
namespace {

constexpr double kFactor = 2.0;  // a power of two scales without rounding

}  // namespace

LossScaler::LossScaler(const LossScaleOptions& options)
    : options_(options), state_{options.dynamic, options.initial, options.hysteresis} {
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
  return options_.dynamic && state_.hysteresis_left == 1 && state_.scale <= options_.minimum;
}

void LossScaler::update(bool overflow) {
  if (!options_.dynamic) {
    return;
  }
  if (overflow) {
    state_.good_steps = 0;
    if (state_.hysteresis_left > 1) {
      --state_.hysteresis_left;
    } else {
      state_.scale = std::max(state_.scale / kFactor, options_.minimum);
    }
  } else if (++state_.good_steps == options_.window) {
    state_.good_steps = 0;
    state_.hysteresis_left = options_.hysteresis;
    state_.scale *= kFactor;
  }
}

void LossScaler::resume(const State& state) {
  if (options_.dynamic && state.dynamic) {
    state_ = state;
  }
}

}  // namespace zerolab::optim
