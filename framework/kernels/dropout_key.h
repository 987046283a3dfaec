#pragma once

#include <cstdint>

namespace zerolab {

/// Names the random numbers of one dropout: the same bits whatever rank computes the sample.
struct DropoutKey {
  uint64_t seed = 0;
  uint64_t op = 0;  ///< which dropout of the model
  int64_t first_sample =
      0;  ///< global sample of the tensor's first row; outermost extent = samples
  double probability = 0.0;  ///< of dropping
};

}  // namespace zerolab
