#pragma once

#include <cstdint>
#include <string>

namespace zerolab::optim {

struct ScheduleOptions {
  std::string name = "constant";  ///< constant, cosine, linear
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  double learning_rate = 0.0;      ///< at the end of the warm-up
  double min_learning_rate = 0.0;  ///< after `total_steps`
};

/// The learning rate of the update with index `step` (from 0): rises linearly over the warm-up,
/// whose last update has the full rate, then stays, or falls along half a cosine or a line to the
/// minimum.
double learning_rate(const ScheduleOptions& options, int64_t step);

}  // namespace zerolab::optim
