#pragma once

#include <chrono>
#include <cstdio>
#include <string_view>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/terminal/console_progress.h"
#include "apps/train_gpt/terminal/terminal.h"

namespace zerolab::app {

/// What a run says on the console: how far it is, and a line for each thing that happens. `out` and
/// `config` must outlive it; where `out` is null nothing is shown.
class ConsoleLog final : public RunObserver {
 public:
  ConsoleLog(std::FILE* out, const Terminal& terminal, const RunConfig& config)
      : config_(config), progress_(out, terminal, config) {}

  /// A line that stays.
  void note(std::string_view text) { progress_.note(text); }

  void on_start(const RunInfo& info) override;
  void on_step(const StepRecord& record) override;
  void on_stage(const StageRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_sample(const SampleRecord& record) override;
  void on_checkpoint(const checkpoint::Saved& saved) override;

  /// Shows the last step, and whether the run ended before its time.
  void finish(const RunSummary& summary);

 private:
  void note_skip(const StepRecord& record);
  void note_excess(const StepRecord& record);

  const RunConfig& config_;
  ConsoleProgress progress_;
  std::chrono::steady_clock::time_point begin_;
  int64_t skips_ = 0;
  bool excess_noted_ = false;
};

}  // namespace zerolab::app
