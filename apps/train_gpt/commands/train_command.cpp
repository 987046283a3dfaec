#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <numeric>

#include "apps/train_gpt/commands/commands.h"
#include "apps/train_gpt/metrics/metrics_log.h"
#include "apps/train_gpt/metrics/metrics_records.h"
#include "apps/train_gpt/metrics/run_file.h"
#include "apps/train_gpt/metrics/tensorboard_log.h"
#include "apps/train_gpt/metrics/trace.h"
#include "apps/train_gpt/report/live_page.h"
#include "apps/train_gpt/setup/modelled_link.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "apps/train_gpt/terminal/progress.h"
#include "apps/train_gpt/text/format.h"
#include "apps/train_gpt/training/resume.h"
#include "checkpoint/folder.h"
#include "checkpoint/writer.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

Terminal terminal_of(const std::string& console) {
  return console == "plain" ? Terminal() : Terminal::of(stdout);
}

/// Writes the log and shows the progress.
class Logging final : public RunObserver {
 public:
  Logging(const RunConfig& config, const std::filesystem::path& folder,
          const checkpoint::Checkpoint* resume)
      : config_(config),
        resume_(resume),
        steps_done_(resume == nullptr ? 0 : resume->manifest().state.step),
        progress_(config.log.console == "off" ? nullptr : stdout, terminal_of(config.log.console),
                  config) {
    // First, since a port that is taken must be found out before anything is written.
    if (!config.log.dashboard.empty()) {
      page_.emplace(*parse_listen_address(config.log.dashboard), folder / "metrics.jsonl");
    }
    if (config.log.metrics) {
      log_ = std::make_unique<MetricsLog>(
          folder, resume == nullptr ? std::nullopt : std::optional(steps_done_));
      config_file_ = std::make_unique<RunFile>(folder, "config.toml", "metrics");
    }
    if (config.log.tensorboard) {
      events_ = std::make_unique<EventLog>(folder, steps_done_);
    }
    if (config.log.trace) {
      trace_ = std::make_unique<RunFile>(folder, "trace.json", "trace");
    }
  }

  void on_start(const RunInfo& info) override {
    if (resume_ != nullptr) {
      const std::string note = resume_note(config_, *resume_);
      write(resume_record(*resume_, note));
      progress_.note(note);
    }
    if (config_file_ != nullptr) {
      config_file_->write(dump_toml(config_));
    }
    write(config_record(config_));
    write(layout_record(info));
    write(map_record(*info.layout));
    progress_.note(fmt::format("{} ({}): {} parameters + {} padding in {} buckets, {} ranks",
                               zero::name_of_stage(info.plan.stage), name_of(info.plan.reduction),
                               info.num_params, info.padding, info.num_buckets,
                               config_.launch.ranks));
    if (const std::string link = modelled_link_text(config_.comm); !link.empty()) {
      progress_.note(link);
    }
    if (page_.has_value()) {
      page_->start();
      progress_.note(fmt::format("dashboard: {}", page_->url()));
    }
    begin_ = Clock::now();
  }

  void on_step(const StepRecord& record) override {
    write(step_record(record));
    if (!record.timeline.empty()) {
      write(timeline_record(record));
    }
    write_scalars(record.step, step_scalars(record));
    if (record.result.skipped.has_value()) {
      write(skip_record(record));
      note_skip(record);
    }
    if (record.excess_buffers > 0 && !excess_noted_) {
      excess_noted_ = true;
      progress_.note(
          fmt::format("step {}: {} gradient buckets beyond the planned two were held, the last for "
                      "{}: its bucket "
                      "waits for a gradient that comes later",
                      record.step, record.excess_buffers, record.excess_parameter));
    }
    progress_.update(record, std::chrono::duration<double>(Clock::now() - begin_).count());
  }

  void on_stage(const StageRecord& record) override {
    write(stage_record(record));
    const auto total = [](const CategoryBytes& bytes) {
      return format_bytes(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
    };
    const StageRecord::Memory& memory = record.memory[0];
    progress_.note(fmt::format("step {}: {} -> {} in {:.1f} ms, memory of rank 0: {} -> {}",
                               record.step, zero::name_of_stage(record.from),
                               zero::name_of_stage(record.to), record.ms, total(memory.before),
                               total(memory.after)));
  }

  void on_evaluation(const EvaluationRecord& record) override {
    write(evaluation_record(record));
    write_scalars(record.step, evaluation_scalars(record));
    progress_.note(fmt::format("step {}: validation loss {:.4f} over {} tokens", record.step,
                               record.evaluation.loss, record.evaluation.tokens));
  }

  /// A failed one costs the older ones nothing, and the run goes on.
  void on_checkpoint(const checkpoint::Saved& saved) override {
    write(checkpoint_record(saved));
    progress_.note(saved.error.empty()
                       ? fmt::format("step {}: checkpoint {}, {} in {:.2f} s", saved.step,
                                     saved.path, format_bytes(saved.bytes), saved.seconds)
                       : fmt::format("step {}: no checkpoint: {}", saved.step, saved.error));
  }

  void on_sample(const SampleRecord& record) override {
    write(sample_record(record));
    if (!record.error.empty()) {
      progress_.note(fmt::format("step {}: no sample: {}", record.step, record.error));
      return;
    }
    // One line, whatever the text holds.
    const auto replace = nlohmann::json::error_handler_t::replace;
    progress_.note(fmt::format("step {}: sample {}", record.step,
                               nlohmann::json(record.text).dump(-1, ' ', false, replace)));
  }

  /// A trace is a help, not the result: the run goes on without it.
  void on_trace(const Trace& trace) override {
    try {
      trace.write(*trace_);
    } catch (const Error& error) {
      trace_error_ = error.what();
    }
  }

  void finish(RunSummary& summary) {
    write(summary_record(summary));
    progress_.finish();
    if (summary.stopped) {
      progress_.note(fmt::format("stopped on request after step {} of {}; the log is complete",
                                 summary.last_step, config_.run.steps));
    }
    if (log_ != nullptr) {
      progress_.note(fmt::format("log: {}", log_->path()));
    }
    if (events_ != nullptr) {
      progress_.note(fmt::format("for TensorBoard: {}", events_->path()));
    }
    if (trace_ != nullptr && trace_error_.empty()) {
      progress_.note(fmt::format("trace: {}", trace_->path()));
    }
    summary.trace_error = trace_error_;
  }

 private:
  void write(const nlohmann::json& record) {
    if (log_ != nullptr) {
      log_->write(record);
    }
  }

  void write_scalars(int64_t step, const Scalars& scalars) {
    if (events_ != nullptr) {
      events_->write(step, scalars);
    }
  }

  /// The first few, then every hundredth: a run that skips for ever must not fill the screen. The
  /// log has them all.
  void note_skip(const StepRecord& record) {
    constexpr int64_t kShown = 5;
    ++skips_;
    if (skips_ <= kShown || skips_ % 100 == 0) {
      const zero::NonFinite& reason = *record.result.skipped;
      const std::string sources =
          reason.source_ranks.empty()
              ? ""
              : fmt::format(", from rank {}", fmt::join(reason.source_ranks, ", "));
      const double scale = record.result.loss_scale;
      progress_.note(fmt::format(
          "step {} skipped ({} so far): the gradient of {} is {} at element {} (owner: rank "
          "{}{}){}",
          record.step, skips_, reason.parameter, reason.kind, reason.index, reason.owner_rank,
          sources, scale == 1.0 ? "" : fmt::format("; loss scale {}", scale)));
    }
  }

  const RunConfig& config_;
  const checkpoint::Checkpoint* const resume_;
  const int64_t steps_done_;
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<RunFile> config_file_;
  std::unique_ptr<EventLog> events_;
  std::unique_ptr<RunFile> trace_;
  std::string trace_error_;
  Progress progress_;
  std::optional<LivePage> page_;
  Clock::time_point begin_;
  int64_t skips_ = 0;
  bool excess_noted_ = false;
};

/// Null: the configuration asks for no checkpoints. A new run must not drop those of an older one.
std::unique_ptr<checkpoint::Writer> make_writer(const RunConfig& config,
                                                const std::filesystem::path& run_folder,
                                                const checkpoint::Checkpoint* resume) {
  if (config.checkpoint.every == 0) {
    return nullptr;
  }
  const checkpoint::Folder folder(run_folder / checkpoint::kFolderName);
  if (resume == nullptr && !folder.steps().empty()) {
    throw ConfigError(
        "checkpoint",
        fmt::format("{}: '{}' holds checkpoints of an earlier run; --resume latest goes on with "
                    "it; or choose another run.name, or remove the folder",
                    config.place_of("checkpoint.every"), folder.path().string()));
  }
  return std::make_unique<checkpoint::Writer>(folder, static_cast<int>(config.launch.ranks),
                                              config.checkpoint.keep);
}

int status_of(const RunSummary& summary) {
  return summary.trace_error.empty() && summary.checkpoint_error.empty() ? 0 : 1;
}

}  // namespace

MemoryLedger::Snapshot require_fits(const RunConfig& config, int64_t vocab_size) {
  try {
    return dry_run(config, vocab_size, 0);
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {
    throw ConfigError(
        "config", fmt::format("{}: the model does not fit (nothing was allocated or written): {}",
                              config.place_of("launch.memory_limit"), error.what()));
  }
}

RunSummary run_logged(const RunConfig& config, const TrainingData& data,
                      const std::atomic<bool>& stop, const checkpoint::Checkpoint* resume) {
  const std::filesystem::path folder = std::filesystem::path(config.run.out_dir) / config.run.name;
  const std::unique_ptr<checkpoint::Writer> writer = make_writer(config, folder, resume);
  Logging logging(config, folder, resume);
  RunSummary summary = run_training(config, data, logging, stop, {resume, writer.get()});
  logging.finish(summary);
  if (!summary.checkpoint_error.empty()) {
    fmt::print(stderr, "error: the last checkpoint failed: {}\n", summary.checkpoint_error);
  }
  if (!summary.trace_error.empty()) {
    fmt::print(stderr, "error: {}\n", summary.trace_error);
  }
  return summary;
}

int train_command(const RunConfig& config, const std::atomic<bool>& stop) {
  const TrainingData data = load_training_data(config);
  require_fits(config, data.vocab_size);
  return status_of(run_logged(config, data, stop));
}

int resume_command(const std::string& resume, const std::string& file,
                   const std::vector<std::string>& overrides, const std::atomic<bool>& stop) {
  RunConfig config;
  if (!file.empty()) {
    config = load_config(file, overrides);
  }
  const checkpoint::Checkpoint saved(find_resume(resume, file.empty() ? nullptr : &config));
  if (file.empty()) {
    config = resumed_config(saved.manifest().state, overrides);
  }
  const TrainingData data = load_training_data(config);
  prepare_resume(config, data, saved);
  require_fits(config, data.vocab_size);
  return status_of(run_logged(config, data, stop, &saved));
}

}  // namespace zerolab::app
