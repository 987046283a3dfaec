#pragma once

#include <atomic>
#include <cstdint>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/training/training_run.h"

namespace zerolab::app {

/// Ends with an error that says where the configuration asks for more memory than there is, before
/// anything is written. Returns the predicted bytes of rank 0 by category.
MemoryLedger::Snapshot require_fits(const RunConfig& config, int64_t vocab_size);

/// One run with its outputs (run_logging.h) and its checkpoints. A trace or a last checkpoint that
/// could not be written does not end the run: `stderr` and the summary say so.
RunSummary run_logged(const RunConfig& config, const TrainingData& data,
                      const std::atomic<bool>& stop,
                      const checkpoint::Checkpoint* resume = nullptr);

}  // namespace zerolab::app
