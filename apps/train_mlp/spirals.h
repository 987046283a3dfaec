#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace zerolab::app {

/// Training an MLP to tell which of two interleaved spirals a point lies on.
struct SpiralOptions {
  int stage = 2;
  int ranks = 4;
  int64_t steps = 1000;
  int64_t batch_size = 256;  ///< points a step, of all ranks together
  int64_t reduce_bucket_size = 1024;
  bool overlap_comm = false;
  double learning_rate = 5e-3;
  int64_t seed = 1;
  std::string backend = "auto";  ///< onednn, plain, or auto: onednn where it was built
  int64_t report_every = 100;

  /// Throws `ConfigError` naming the first option that cannot be.
  void check() const;
};

struct SpiralReport {
  int64_t step = 0;  ///< from 1
  double loss = 0.0;
  double accuracy = 0.0;  ///< on points that are never trained on
};

struct SpiralResult {
  std::vector<double> losses;
  double accuracy = 0.0;
  std::vector<float> weights;  ///< of rank 0, in the parameters' order
};

/// `report` is called on rank 0's thread, every `report_every` steps and after the last.
SpiralResult train_spirals(const SpiralOptions& options,
                           const std::function<void(const SpiralReport&)>& report);

}  // namespace zerolab::app
