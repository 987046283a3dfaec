#include "apps/train_gpt/terminal/console_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "apps/train_gpt/setup/modelled_link.h"
#include "apps/train_gpt/text/format.h"

namespace zerolab::app {
namespace {

std::string total_of(const CategoryBytes& bytes) {
  return format_bytes(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
}

}  // namespace

void ConsoleLog::on_start(const RunInfo& info) {
  note(fmt::format("{} ({}): {} parameters + {} padding in {} buckets, {} ranks",
                   zero::name_of_stage(info.plan.stage), name_of(info.plan.reduction),
                   info.num_params, info.padding, info.num_buckets, config_.launch.ranks));
  if (const std::string link = modelled_link_text(config_.comm); !link.empty()) {
    note(link);
  }
  begin_ = std::chrono::steady_clock::now();
}

void ConsoleLog::on_step(const StepRecord& record) {
  if (record.result.skipped.has_value()) {
    note_skip(record);
  }
  if (record.excess_buffers > 0 && !excess_noted_) {
    note_excess(record);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
  progress_.update(record, elapsed.count());
}

void ConsoleLog::on_stage(const StageRecord& record) {
  const StageRecord::Memory& memory = record.memory[0];
  note(fmt::format("step {}: {} -> {} in {:.1f} ms, memory of rank 0: {} -> {}", record.step,
                   zero::name_of_stage(record.from), zero::name_of_stage(record.to), record.ms,
                   total_of(memory.before), total_of(memory.after)));
}

void ConsoleLog::on_evaluation(const EvaluationRecord& record) {
  note(fmt::format("step {}: validation loss {:.4f} over {} tokens", record.step,
                   record.evaluation.loss, record.evaluation.tokens));
}

void ConsoleLog::on_sample(const SampleRecord& record) {
  if (!record.error.empty()) {
    note(fmt::format("step {}: no sample: {}", record.step, record.error));
    return;
  }
  // One line, whatever the text holds.
  const auto replace = nlohmann::json::error_handler_t::replace;
  note(fmt::format("step {}: sample {}", record.step,
                   nlohmann::json(record.text).dump(-1, ' ', false, replace)));
}

void ConsoleLog::on_checkpoint(const checkpoint::Saved& saved) {
  note(saved.error.empty() ? fmt::format("step {}: checkpoint {}, {} in {:.2f} s", saved.step,
                                         saved.path, format_bytes(saved.bytes), saved.seconds)
                           : fmt::format("step {}: no checkpoint: {}", saved.step, saved.error));
}

void ConsoleLog::finish(const RunSummary& summary) {
  progress_.finish();
  if (summary.stopped) {
    note(fmt::format("stopped on request after step {} of {}; the log is complete",
                     summary.last_step, config_.run.steps));
  }
}

/// The first few, then every hundredth: a run that skips for ever must not fill the screen. The log
/// has them all.
void ConsoleLog::note_skip(const StepRecord& record) {
  constexpr int64_t kShown = 5;
  ++skips_;
  if (skips_ > kShown && skips_ % 100 != 0) {
    return;
  }
  const zero::NonFinite& reason = *record.result.skipped;
  const std::string sources =
      reason.source_ranks.empty()
          ? ""
          : fmt::format(", from rank {}", fmt::join(reason.source_ranks, ", "));
  const double scale = record.result.loss_scale;
  note(fmt::format(
      "step {} skipped ({} so far): the gradient of {} is {} at element {} (owner: rank {}{}){}",
      record.step, skips_, reason.parameter, reason.kind, reason.index, reason.owner_rank, sources,
      scale == 1.0 ? "" : fmt::format("; loss scale {}", scale)));
}

void ConsoleLog::note_excess(const StepRecord& record) {
  excess_noted_ = true;
  note(
      fmt::format("step {}: {} gradient buckets beyond the planned two were held, the last for {}: "
                  "its bucket waits for a gradient that comes later",
                  record.step, record.excess_buffers, record.excess_parameter));
}

}  // namespace zerolab::app
