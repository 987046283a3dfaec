#include "apps/train_gpt/commands/run_logging.h"

#include <fmt/format.h>

#include "apps/train_gpt/config/listen_address.h"
#include "apps/train_gpt/terminal/terminal.h"
#include "apps/train_gpt/training/resume.h"

namespace zerolab::app {

RunLogging::RunLogging(const RunConfig& config, const std::filesystem::path& run_folder,
                       const checkpoint::Checkpoint* resume)
    : console_(config.log.console == "off" ? nullptr : stdout,
               config.log.console == "plain" ? Terminal() : Terminal::of(stdout), config) {
  if (resume != nullptr) {
    resume_.emplace(*resume, resume_note(config, *resume));
  }
  // First, since a port that is taken must be found out before anything is written.
  if (!config.log.dashboard.empty()) {
    page_.emplace(*parse_listen_address(config.log.dashboard), run_folder / "metrics.jsonl");
  }
  if (config.log.metrics) {
    observers_.push_back(
        &metrics_.emplace(config, run_folder, resume_.has_value() ? &*resume_ : nullptr));
  }
  if (config.log.tensorboard) {
    observers_.push_back(
        &tensorboard_.emplace(run_folder, resume == nullptr ? 0 : resume->manifest().state.step));
  }
  if (config.log.trace) {
    observers_.push_back(&trace_.emplace(run_folder));
  }
  observers_.push_back(&console_);
}

void RunLogging::on_start(const RunInfo& info) {
  if (resume_.has_value()) {
    console_.note(resume_->note);
  }
  tell(&RunObserver::on_start, info);
  if (page_.has_value()) {
    page_->start();
    console_.note(fmt::format("dashboard: {}", page_->url()));
  }
}

void RunLogging::finish(RunSummary& summary) {
  if (metrics_.has_value()) {
    metrics_->finish(summary);
  }
  console_.finish(summary);
  if (metrics_.has_value()) {
    console_.note(fmt::format("log: {}", metrics_->path()));
  }
  if (tensorboard_.has_value()) {
    console_.note(fmt::format("for TensorBoard: {}", tensorboard_->path()));
  }
  if (trace_.has_value()) {
    summary.trace_error = trace_->error();
    if (summary.trace_error.empty()) {
      console_.note(fmt::format("trace: {}", trace_->path()));
    }
  }
}

}  // namespace zerolab::app
