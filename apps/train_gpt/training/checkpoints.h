#pragma once

#include <memory>
#include <optional>

#include "apps/train_gpt/training/training_run.h"

namespace zerolab::app {

/// One rank's checkpoints: where its run goes on from, and what it saves on its way.
class RankCheckpoints {
 public:
  /// Brings the trainer to where `storage.resume` was saved. All outlive it.
  RankCheckpoints(const RunConfig& config, const TrainingData& data, RankContext& context,
                  RankTrainer& trainer, const RunStorage& storage);

  /// 0 at a start.
  int64_t steps_done() const { return steps_done_; }
  /// Counts a step, and returns whether to save after it, the same on all ranks. `last`: no step
  /// follows.
  bool add_step(int64_t step, const zero::StepResult& result, bool last);
  /// The step's records are logged before it, so that a resumed run's log has them.
  void save(int64_t step) { writer_->save(manifest(step)); }
  /// Returns when this rank's file is written.
  void wait();

 private:
  checkpoint::Manifest manifest(int64_t step) const;

  const RunConfig& config_;
  const TrainingData& data_;
  RankTrainer& trainer_;
  std::optional<checkpoint::RankWriter> writer_;
  int64_t steps_done_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace zerolab::app
