#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace zerolab::optim {

double learning_rate(const ScheduleOptions& options, int64_t step) {
  if (step < options.warmup_steps) {
    return options.learning_rate * static_cast<double>(step + 1) /
           static_cast<double>(options.warmup_steps);
  }
  if (options.name == "constant") {
    return options.learning_rate;
  }
  const int64_t decay_steps = std::max<int64_t>(1, options.total_steps - options.warmup_steps);
  const double progress = std::min(
      1.0, static_cast<double>(step - options.warmup_steps) / static_cast<double>(decay_steps));
  const double share = options.name == "cosine"
                           ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                           : 1.0 - progress;
  return options.min_learning_rate + share * (options.learning_rate - options.min_learning_rate);
}

}  // namespace zerolab::optim
