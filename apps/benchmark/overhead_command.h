#pragma once

#include <string>

#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

struct OverheadCommand {
  TrainingOptions training;  ///< of one rank
  int rounds = 15;           ///< of one step of every variant; one before them warms up
  std::string json;          ///< file; empty: none
};

/// One rank's plain loop without the engine against the engine under every stage, in turn, and
/// prints what the engine costs. Throws when their losses are not the same bits.
void run_overhead_command(const OverheadCommand& command, Backend& backend);

}  // namespace zerolab::bench
