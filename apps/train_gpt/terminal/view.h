#pragma once

#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/terminal/sparkline.h"
#include "apps/train_gpt/terminal/terminal.h"

namespace zerolab::app {

/// What the live view (docs/terminal.md) shows of a step.
struct ViewedStep {
  int64_t step = 0;
  int stage = 0;
  double loss = 0;
  double tokens_per_s = 0;
  double ms = 0;
  double exposed_ms = 0;                       ///< of those, waiting for communication
  std::vector<MemoryLedger::Snapshot> memory;  ///< by rank
  double seconds_left = 0;                     ///< of the run

  ViewedStep(const StepRecord& record, double left)
      : step(record.step),
        stage(record.stage),
        loss(record.result.loss),
        tokens_per_s(record.tokens_per_s()),
        ms(record.ms.step),
        exposed_ms(record.ms.comm_exposed),
        memory(record.memory),
        seconds_left(left) {}
};

/// The live view: lines narrower than the terminal. One line where the terminal has less than 40
/// columns, or too few rows for more.
std::vector<std::string> view_lines(const RunConfig& config, const ViewedStep& step,
                                    const History& losses, const Terminal& terminal);

/// A step as one line, which is also the progress off a terminal.
std::string step_line(const RunConfig& config, const ViewedStep& step);

}  // namespace zerolab::app
