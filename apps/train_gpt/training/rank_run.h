#pragma once

#include <atomic>

#include "apps/train_gpt/training/checkpoints.h"
#include "apps/train_gpt/training/run_reporter.h"

namespace zerolab::app {

/// What all ranks of a run share.
struct SharedRun {
  SharedRun(const RunConfig& config, const TrainingData& data, RunObserver& observer,
            const std::atomic<bool>& stop, const RunStorage& storage);

  const RunConfig& config;
  const TrainingData& data;
  const std::atomic<bool>& stop;
  const RunStorage& storage;
  StepMailbox mailbox;
  Trace trace;           ///< each rank adds its own spans
  RunReporter reporter;  ///< of rank 0's thread only
};

/// One rank's way through a run. All ranks do the same steps, since the control collective agrees
/// on a stop.
class RankRun {
 public:
  /// Makes model and engine, and restores the checkpoint to resume from. All outlive it.
  RankRun(SharedRun& run, RankContext& context, Communicator& communicator);

  /// Trains to the last step, or to the one that a stop ends. Called once.
  void train();

 private:
  /// What follows a step, the same on all ranks.
  struct Due {
    bool evaluation = false;
    bool sample = false;
    bool checkpoint = false;
    bool end = false;

    bool any() const { return evaluation || sample || checkpoint || end; }
  };

  void start();
  void switch_stage(const StageSwitch& change);
  zero::StepResult step(int64_t step);
  Due due_after(int64_t step, const zero::StepResult& result);
  void evaluate(int64_t step);
  void sample(int64_t step);
  void finish(int64_t step);

  bool reports() const { return context_.rank() == 0; }
  void post(int64_t step, const MemoryLedger::Snapshot& memory);
  /// Returns when all ranks have posted, and reports what they have.
  void meet();
  /// Adds what was recorded since the last call to the trace.
  std::vector<Span> take_spans(int64_t step);
  StepRecord record_of(int64_t step) const;

  SharedRun& run_;
  RankContext& context_;
  Communicator& communicator_;
  RankTrainer trainer_;
  const AbortOnUnwind abort_on_unwind_;
  RankCheckpoints checkpoints_;
  int64_t last_with_timeline_ = 0;
};

}  // namespace zerolab::app
