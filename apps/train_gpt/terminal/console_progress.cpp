#include "apps/train_gpt/terminal/console_progress.h"

#include <fmt/core.h>

namespace zerolab::app {
namespace {

constexpr double kSecondsADraw = 0.1;

}  // namespace

ConsoleProgress::ConsoleProgress(std::FILE* out, const Terminal& terminal, const RunConfig& config)
    : out_(out), terminal_(terminal), config_(config) {}

ConsoleProgress::~ConsoleProgress() { finish(); }

void ConsoleProgress::update(const StepRecord& record, double elapsed_s) {
  first_step_ = first_step_ == 0 ? record.step : first_step_;
  const bool is_due = terminal_.live || record.step % config_.run.log_every == 0 ||
                      record.step == config_.run.steps;
  if (out_ == nullptr || !is_due) {
    return;
  }
  const auto steps_left = static_cast<double>(config_.run.steps - record.step);
  const auto steps_done = static_cast<double>(record.step - first_step_ + 1);
  const ViewedStep step(record, elapsed_s / steps_done * steps_left);
  if (!terminal_.live) {
    note(step_line(config_, step));
    return;
  }
  last_ = step;
  drawn_ = false;
  losses_.add(step.loss);
  if (elapsed_s >= next_draw_s_) {
    next_draw_s_ = elapsed_s + kSecondsADraw;
    draw("");
  }
}

void ConsoleProgress::note(std::string_view text) {
  const std::string line = fmt::format("{}\n", text);
  if (block_.is_drawn()) {
    draw(line);
  } else {
    print(line);
  }
}

void ConsoleProgress::finish() {
  if (last_.has_value() && !drawn_) {
    draw("");
  }
  block_.end();
}

void ConsoleProgress::draw(std::string_view above) {
  terminal_.measure(out_);
  print(block_.draw(above, view_lines(config_, *last_, losses_, terminal_), terminal_.columns));
  drawn_ = true;
}

void ConsoleProgress::print(std::string_view text) {
  if (out_ != nullptr) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }
}

}  // namespace zerolab::app
