#include "apps/train_gpt/metrics/observers.h"

#include <nlohmann/json.hpp>

#include "apps/train_gpt/metrics/metrics_records.h"
#include "apps/train_gpt/metrics/trace.h"
#include "checkpoint/checkpoint.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

std::optional<int64_t> steps_before(const ResumedFrom* resume) {
  return resume == nullptr ? std::nullopt : std::optional(resume->checkpoint.manifest().state.step);
}

}  // namespace

MetricsObserver::MetricsObserver(const RunConfig& config, const std::filesystem::path& run_folder,
                                 const ResumedFrom* resume)
    : config_(config),
      resume_(resume),
      log_(run_folder, steps_before(resume)),
      config_file_(run_folder, "config.toml", "metrics") {}

void MetricsObserver::on_start(const RunInfo& info) {
  if (resume_ != nullptr) {
    log_.write(resume_record(resume_->checkpoint, resume_->note));
  }
  config_file_.write(dump_toml(config_));
  log_.write(config_record(config_));
  log_.write(layout_record(info));
  log_.write(map_record(*info.layout));
}

void MetricsObserver::on_step(const StepRecord& record) {
  log_.write(step_record(record));
  if (!record.timeline.empty()) {
    log_.write(timeline_record(record));
  }
  if (record.result.skipped.has_value()) {
    log_.write(skip_record(record));
  }
}

void MetricsObserver::on_stage(const StageRecord& record) { log_.write(stage_record(record)); }

void MetricsObserver::on_evaluation(const EvaluationRecord& record) {
  log_.write(evaluation_record(record));
}

void MetricsObserver::on_sample(const SampleRecord& record) { log_.write(sample_record(record)); }

void MetricsObserver::on_checkpoint(const checkpoint::Saved& saved) {
  log_.write(checkpoint_record(saved));
}

void MetricsObserver::finish(const RunSummary& summary) { log_.write(summary_record(summary)); }

void TensorboardObserver::on_step(const StepRecord& record) {
  events_.write(record.step, step_scalars(record));
}

void TensorboardObserver::on_evaluation(const EvaluationRecord& record) {
  events_.write(record.step, evaluation_scalars(record));
}

void TraceObserver::on_trace(const Trace& trace) {
  try {
    trace.write(file_);
  } catch (const Error& error) {
    error_ = error.what();
  }
}

}  // namespace zerolab::app
