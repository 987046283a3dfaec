#include "apps/train_gpt/planning/largest_fit.h"

#include <algorithm>
#include <cmath>

#include "apps/train_gpt/planning/prediction.h"
#include "apps/train_gpt/training/dry_run.h"

namespace zerolab::app {
namespace {

constexpr int64_t kMostSamples = 1'000'000;  // of a micro-batch, as in the table of keys
constexpr int64_t kMostLayers = 1'000;

LargestFit largest_fit(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                       const DeviceModel& device, int64_t limit, int64_t& value) {
  int64_t num_params = 0;
  const auto bytes = [&](int64_t x) {
    value = x;
    DryRun dry(config, vocab_size, 0, imitated);
    const int64_t start = dry.context().ledger().snapshot().total_peak;
    dry.trainer().step(0, false);
    num_params = dry.trainer().engine().layout().num_params();
    return std::max(start, dry.context().ledger().snapshot().total_peak);
  };
  LargestFit result;
  result.value = largest_that_fits(bytes, device.memory, limit);
  result.more_fits = result.value == limit;
  if (result.value > 0) {
    bytes(result.value);
    result.num_params = num_params;
  }
  return result;
}

}  // namespace

LargestFit largest_micro_batch(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                               const DeviceModel& device) {
  RunConfig scaled = config;
  scaled.train.micro_batch_size = 1;
  const auto limit =
      static_cast<int64_t>(kMostTensorElements / largest_tensor_numel(scaled, vocab_size));
  return largest_fit(scaled, vocab_size, imitated, device, std::min(limit, kMostSamples),
                     scaled.train.micro_batch_size);
}

LargestFit largest_model(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                         const DeviceModel& device) {
  RunConfig scaled = config;
  return largest_fit(scaled, vocab_size, imitated, device, kMostLayers, scaled.model.n_layer);
}

int64_t largest_that_fits(const std::function<int64_t(int64_t x)>& bytes, int64_t memory,
                          int64_t limit) {
  constexpr int kProbesOnLine = 16;  // then bytes is no line, and halves are safer
  int64_t fits = 0;
  int64_t too_large = limit + 1;
  int64_t last = 0;
  int64_t last_bytes = 0;
  int64_t x = 1;
  for (int probe = 0; too_large - fits > 1; ++probe) {
    const int64_t needed = bytes(x);
    (needed <= memory ? fits : too_large) = x;
    const double slope = static_cast<double>(needed - last_bytes) / static_cast<double>(x - last);
    double next = static_cast<double>(fits + (too_large - fits) / 2);
    if (probe == 0) {
      next = 2.0;
    } else if (probe < kProbesOnLine && slope > 0.0) {
      next = static_cast<double>(x) + std::floor(static_cast<double>(memory - needed) / slope);
    }
    last = x;
    last_bytes = needed;
    x = static_cast<int64_t>(std::clamp(next, static_cast<double>(fits + 1),
                                        static_cast<double>(std::max(fits + 1, too_large - 1))));
  }
  return fits;
}

}  // namespace zerolab::app
