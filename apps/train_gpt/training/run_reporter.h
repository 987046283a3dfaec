#pragma once

#include <optional>
#include <vector>

#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/metrics/trace.h"
#include "apps/train_gpt/training/step_mailbox.h"

namespace zerolab::app {

/// Rank 0's part of a run: completes records, hands them to the observer, and keeps the summary.
class RunReporter {
 public:
  /// All outlive it.
  RunReporter(RunObserver& observer, const StepMailbox& mailbox, const Trace& trace, int ranks);

  void start(RunInfo info);
  /// Keeps `record` until all ranks have posted its step. Reports the record before, which all have
  /// posted by now.
  void defer(StepRecord record);
  /// Reports the deferred record, if there is one. Called when all ranks have posted its step, or
  /// will not any more.
  void report_deferred();
  void report(const StageRecord& record) { observer_.on_stage(record); }
  void report(const EvaluationRecord& record);
  void report(const SampleRecord& record) { observer_.on_sample(record); }
  /// Reports the checkpoints that were written since the last call; null: the run saves none.
  void report_saved(checkpoint::Writer* writer);
  /// Counts the collectives that ended after the last step, which all ranks have posted as those of
  /// `step`.
  void add_late_communication(int64_t step);
  void end(const std::vector<Parameter*>& parameters) { observer_.on_end(parameters); }
  /// Reports what there is of the trace, once. Called when the ranks have ended.
  void report_trace();
  /// The summary of `planned_steps` steps, or of those that were done. Nothing is called after it.
  RunSummary finish(int64_t planned_steps);

 private:
  void report(const StepRecord& record);

  RunObserver& observer_;
  const StepMailbox& mailbox_;
  const Trace& trace_;
  std::optional<StepRecord> deferred_;
  RunSummary summary_;
  bool trace_reported_ = false;
  std::vector<double> rates_;  ///< tokens/s of the steps after the first
};

}  // namespace zerolab::app
