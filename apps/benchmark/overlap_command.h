#pragma once

#include <string>

#include "apps/benchmark/training_group.h"

namespace zerolab::bench {

struct OverlapCommand {
  TrainingOptions training;  ///< of one of at least two ranks; its link's bandwidth is set here
  int rounds = 3;            ///< in each of which every variant takes `steps` steps in a row
  int steps = 4;
  std::string json;  ///< file; empty: none
};

/// How much of the gradients' communication the backward hides, on a modelled link on which it
/// takes half of the backward: every stage with overlap off and on, with a tied and an untied
/// output layer. Throws when losses are not the same bits.
void run_overlap_command(const OverlapCommand& command, Backend& backend);

}  // namespace zerolab::bench
