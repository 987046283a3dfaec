#pragma once

#include <string>

#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

/// `benchmark gpu`: see its help.
struct GpuCommand {
  TrainingOptions training;
  int steps = 20;
  std::string json;  ///< file for the result; empty: none
};

/// Throws where there is no device.
void run_gpu_command(const GpuCommand& command);

}  // namespace zerolab::bench
