#pragma once

#include <cstdio>
#include <optional>
#include <string_view>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/terminal/block.h"
#include "apps/train_gpt/terminal/view.h"

namespace zerolab::app {

/// Shows how far training is: a live view on a terminal, else lines. Not thread-safe: rank 0 alone
/// calls it. `out` and `config` must outlive it; where `out` is null nothing is shown.
class ConsoleProgress {
 public:
  /// Plain lines come every `run.log_every` steps and at the last; the view is drawn at most ten
  /// times a second.
  ConsoleProgress(std::FILE* out, const Terminal& terminal, const RunConfig& config);
  ~ConsoleProgress();
  ConsoleProgress(const ConsoleProgress&) = delete;
  ConsoleProgress& operator=(const ConsoleProgress&) = delete;

  /// `elapsed_s`: seconds since the first step began.
  void update(const StepRecord& record, double elapsed_s);
  /// A line that stays, e.g. an evaluation's result, above the view.
  void note(std::string_view text);
  /// Shows the last step, and leaves the cursor at the start of a fresh line. The destructor does
  /// it too.
  void finish();

 private:
  /// Draws the view of the last step; `above`, whole lines or nothing, stays above it.
  void draw(std::string_view above);
  void print(std::string_view text);

  std::FILE* out_;
  Terminal terminal_;
  const RunConfig& config_;
  int64_t first_step_ = 0;  ///< of this process: a resumed run begins later
  History losses_;
  std::optional<ViewedStep> last_;
  bool drawn_ = false;  ///< whether the view shows `last_`
  double next_draw_s_ = 0;
  TerminalBlock block_;
};

}  // namespace zerolab::app
