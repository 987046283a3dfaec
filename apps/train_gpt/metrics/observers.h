#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/metrics_log.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/metrics/run_file.h"
#include "apps/train_gpt/metrics/tensorboard_log.h"

namespace zerolab::app {

/// What a run goes on from.
struct ResumedFrom {
  const checkpoint::Checkpoint& checkpoint;
  std::string note;  ///< whether it goes on with the same bits
};

/// Writes the metrics log (docs/metrics.md), and the effective configuration beside it.
class MetricsObserver final : public RunObserver {
 public:
  /// `config` and `resume`, null in a new run, outlive it.
  MetricsObserver(const RunConfig& config, const std::filesystem::path& run_folder,
                  const ResumedFrom* resume);

  void on_start(const RunInfo& info) override;
  void on_step(const StepRecord& record) override;
  void on_stage(const StageRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;
  void on_sample(const SampleRecord& record) override;
  void on_checkpoint(const checkpoint::Saved& saved) override;
  void finish(const RunSummary& summary);

  const std::string& path() const { return log_.path(); }

 private:
  const RunConfig& config_;
  const ResumedFrom* const resume_;
  MetricsLog log_;
  RunFile config_file_;
};

/// Writes scalars for TensorBoard.
class TensorboardObserver final : public RunObserver {
 public:
  TensorboardObserver(const std::filesystem::path& run_folder, int64_t steps_done)
      : events_(run_folder, steps_done) {}

  void on_step(const StepRecord& record) override;
  void on_evaluation(const EvaluationRecord& record) override;

  const std::string& path() const { return events_.path(); }

 private:
  EventLog events_;
};

/// Writes the trace. A trace is a help, not the result: where it cannot be written, the run goes
/// on.
class TraceObserver final : public RunObserver {
 public:
  explicit TraceObserver(const std::filesystem::path& run_folder)
      : file_(run_folder, "trace.json", "trace") {}

  void on_trace(const Trace& trace) override;

  const std::string& path() const { return file_.path(); }
  /// Why there is no trace; empty: there is.
  const std::string& error() const { return error_; }

 private:
  RunFile file_;
  std::string error_;
};

}  // namespace zerolab::app
