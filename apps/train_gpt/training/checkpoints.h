#pragma once

#include <memory>
#include <optional>

#include "apps/train_gpt/training/training_run.h"

namespace zerolab::app {

/// One rank's checkpoints: the one that it resumes from, and those that it saves.
class RankCheckpoints {
 public:
  /// Brings the trainer to where `storage.resume` was saved. All outlive it.
  RankCheckpoints(const RunConfig& config, const TrainingData& data, RankContext& context,
                  RankTrainer& trainer, const RunStorage& storage);

  /// Of the checkpoint that it resumed from; 0: none.
  int64_t steps_done() const { return steps_done_; }
  /// Counts a step's tokens.
  void count(const zero::StepResult& result) { tokens_ += result.tokens; }
  /// Whether a checkpoint follows `step`, the same on all ranks. `last`: no step follows.
  bool is_due(int64_t step, const zero::StepResult& result, bool last) const;
  /// Takes the step's state; a file is written in the background. The step is logged before it, so
  /// that a resumed run's log has it.
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
