#pragma once

#include <string>

#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

struct RanksCommand {
  TrainingOptions training;  ///< of one of the ranks
  int cores = 1;
  int rounds = 5;    ///< of one step of every variant; one before them warms up
  std::string json;  ///< file; empty: none
};

/// One rank with the global batch against several ranks under every stage, in turn, and prints what
/// the ranks lose.
void run_ranks_command(const RanksCommand& command, Backend& backend);

}  // namespace zerolab::bench
