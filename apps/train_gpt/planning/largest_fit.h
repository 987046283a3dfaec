#pragma once

#include <functional>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/planning/device_model.h"

namespace zerolab::app {

/// The largest scale of a model or batch whose peak is within a rank's memory.
struct LargestFit {
  int64_t value = 0;       ///< 0: not even 1 fits
  int64_t num_params = 0;  ///< of the model at that scale
  bool more_fits = false;  ///< `value` is where the search ended, and more may fit
};
/// By train.micro_batch_size, all else the same. Of a resolved configuration; the kernels have the
/// workspaces of `imitated`'s.
LargestFit largest_micro_batch(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                               const DeviceModel& device);
/// By model.n_layer, all else the same.
LargestFit largest_model(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                         const DeviceModel& device);

/// The largest x within [1, limit] for which `bytes` is at most `memory`; 0: none. `bytes` grows
/// with x; the closer to a line, the fewer calls.
int64_t largest_that_fits(const std::function<int64_t(int64_t x)>& bytes, int64_t memory,
                          int64_t limit);

}  // namespace zerolab::app
