#pragma once

#include <array>
#include <optional>
#include <vector>

#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/metrics/trace.h"

namespace zerolab::app {

/// Where every rank lays what rank 0 reports of a step, without waiting for anybody: two boards in
/// turn. The control collective of the next step tells rank 0 that all have laid theirs, and keeps
/// them from the same board until it has read.
class Board {
 public:
  struct Entry {
    int64_t step = 0;
    MemoryLedger::Snapshot memory;
    CommunicationEntries communication;
  };

  explicit Board(const RunConfig& config)
      : entries_{std::vector<Entry>(config.launch.ranks), std::vector<Entry>(config.launch.ranks)},
        stage_memory_(config.launch.ranks),
        trace_(config) {}
  void lay(int rank, Entry entry) { entries_[entry.step % 2][rank] = std::move(entry); }
  /// An entry is of an earlier step where a rank has failed before it laid this one's.
  const std::vector<Entry>& read(int64_t step) const { return entries_[step % 2]; }

  /// Each rank's, between the barriers around a change of stage.
  std::vector<StageRecord::Memory>& stage_memory() { return stage_memory_; }
  /// Each rank's spans; complete when all have laid the entry of the first step after its window.
  Trace& trace() { return trace_; }
  const Trace& trace() const { return trace_; }

 private:
  std::array<std::vector<Entry>, 2> entries_;
  std::vector<StageRecord::Memory> stage_memory_;
  Trace trace_;
};

/// Rank 0's part of a run: makes records, tells the observer, keeps the summary.
class Reporter {
 public:
  Reporter(RunObserver& observer, const Board& board, int ranks);

  void start(RunInfo info);
  /// Reports the step before, whose board is full by now, and holds `record` until its own is.
  void hold(const StepRecord& record);
  /// To be called when all ranks have laid the held step's entries, or will not any more.
  void report_held();
  void stage(const StageRecord& record) { observer_.on_stage(record); }
  void evaluation(const EvaluationRecord& record);
  void sample(const SampleRecord& record) { observer_.on_sample(record); }
  /// Reports what has been saved since the last call; null: no checkpoints.
  void saved(checkpoint::Writer* writer);
  /// Adds collectives that ended after the last record, which all ranks have laid as those of
  /// `step`.
  void add_rest(int64_t step);
  void end(const std::vector<Parameter*>& parameters) { observer_.on_end(parameters); }
  /// The part of the trace that there is, unless it has been reported. To be called when the ranks
  /// have ended.
  void report_trace();
  RunSummary finish(int64_t planned_steps);

 private:
  void step(const StepRecord& record);
  void add(const std::vector<CommunicationEntries>& entries);

  RunObserver& observer_;
  const Board& board_;
  std::optional<StepRecord> held_;
  RunSummary summary_;
  bool trace_told_ = false;
  std::vector<double> rates_;  ///< tokens/s of the steps after the first
};

}  // namespace zerolab::app
