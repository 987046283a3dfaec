#pragma once

#include <string>

#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

struct StepCommand {
  TrainingOptions training;
  int steps = 5;     ///< measured; one before them warms up
  std::string json;  ///< file; empty: none
};

/// Measures the machine's limits and full training steps, and prints the table of kernels of the
/// median step.
void run_step_command(const StepCommand& command, Backend& backend);

}  // namespace zerolab::bench
