#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "framework/memory/ledger.h"

namespace zerolab::examples {

struct VisionOptions {
  int stage = 2;  ///< 0: DDP, 1: ZeRO-1, 2: ZeRO-2
  int ranks = 2;
  int64_t steps = 60;
  int64_t batch_size = 64;  ///< images a step, of all ranks together
  double learning_rate = 3e-3;
  std::string optimizer = "adamw";
  /// Where the run is saved at its end, and where it goes on from if a checkpoint is there; empty:
  /// neither.
  std::filesystem::path checkpoints;
};

struct VisionResult {
  std::vector<double> losses;  ///< of the steps of this run
  double accuracy = 0.0;       ///< on images that are never trained on
  std::vector<float> weights;  ///< of rank 0, in the parameters' order
  int64_t num_params = 0;
  int64_t padding = 0;            ///< elements that the flat buffer has beside them
  MemoryLedger::Snapshot memory;  ///< of rank 0, after the last step
  std::string memory_table;
};

/// Trains a small vision transformer to tell in which direction a noisy line runs. Steps are
/// counted from the checkpoint's, if there is one.
VisionResult train_vision(const VisionOptions& options);

}  // namespace zerolab::examples
