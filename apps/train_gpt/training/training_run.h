#pragma once

#include <atomic>

#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/training/rank_trainer.h"
#include "checkpoint/writer.h"
#include "framework/memory/ledger.h"

namespace zerolab::app {

/// Where a run goes on from, and where it saves to.
struct RunStorage {
  const checkpoint::Checkpoint* resume = nullptr;  ///< null: from the start
  checkpoint::Writer* writer = nullptr;            ///< null: nothing is saved
};

/// Trains with `launch.ranks` threads. `stop` may be set at any time: all ranks end after the same
/// step. Throws the first rank's error after all have ended.
RunSummary run_training(const RunConfig& config, const TrainingData& data, RunObserver& observer,
                        const std::atomic<bool>& stop, const RunStorage& storage = {});

/// One step of `rank` on the meta backend: bytes by category at the peak, and held after it,
/// without holding them. Goes through `[[zero.schedule]]` too. Throws the out-of-memory error that
/// the run would throw.
MemoryLedger::Snapshot dry_run(const RunConfig& config, int64_t vocab_size, int rank);

}  // namespace zerolab::app
