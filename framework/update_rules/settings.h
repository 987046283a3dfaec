#pragma once

#include <cstdint>

namespace zerolab {

/// What an update rule is made from, for one update of one span. A rule reads what it knows of.
struct UpdateSettings {
  double learning_rate = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.0;
  int64_t step = 1;  ///< counts from 1
};

}  // namespace zerolab
