#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/observers.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/report/live_page.h"
#include "apps/train_gpt/terminal/console_log.h"
#include "checkpoint/checkpoint.h"

namespace zerolab::app {

/// All outputs of a run that `[log]` asks for, which hear of it in turn: the console, the metrics
/// log, TensorBoard's events, the trace and the live page. `config` and `resume`, the checkpoint
/// that the run goes on from or null, must outlive it.
class RunLogging final : public RunObserver {
 public:
  /// Throws where an output cannot be written, or the page's port is taken.
  RunLogging(const RunConfig& config, const std::filesystem::path& run_folder,
             const checkpoint::Checkpoint* resume);

  void on_start(const RunInfo& info) override;
  void on_step(const StepRecord& record) override { tell(&RunObserver::on_step, record); }
  void on_stage(const StageRecord& record) override { tell(&RunObserver::on_stage, record); }
  void on_evaluation(const EvaluationRecord& record) override {
    tell(&RunObserver::on_evaluation, record);
  }
  void on_sample(const SampleRecord& record) override { tell(&RunObserver::on_sample, record); }
  void on_checkpoint(const checkpoint::Saved& saved) override {
    tell(&RunObserver::on_checkpoint, saved);
  }
  void on_trace(const Trace& trace) override { tell(&RunObserver::on_trace, trace); }

  /// Ends all outputs, says where they are, and enters into `summary` why there is no trace.
  void finish(RunSummary& summary);

 private:
  template <typename Event>
  void tell(void (RunObserver::*event)(const Event&), const Event& what) {
    for (RunObserver* const observer : observers_) {
      (observer->*event)(what);
    }
  }

  std::optional<ResumedFrom> resume_;
  std::optional<LivePage> page_;
  std::optional<MetricsObserver> metrics_;
  std::optional<TensorboardObserver> tensorboard_;
  std::optional<TraceObserver> trace_;
  ConsoleLog console_;
  std::vector<RunObserver*> observers_;
};

}  // namespace zerolab::app
