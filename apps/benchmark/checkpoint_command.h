#pragma once

#include <filesystem>
#include <string>

#include "models/gpt.h"

namespace zerolab {
class Backend;
}

namespace zerolab::bench {

struct CheckpointCommand {
  GptConfig model;
  int ranks = 2;
  int stage = 1;
  int rounds = 5;                      ///< one before them warms up
  std::filesystem::path folder = ".";  ///< whose disk is measured; what is written there goes again
  std::string json;                    ///< file; empty: none
};

/// Saves a model with its AdamW state, in turn with what limits it: `dd` with a sync, which writes
/// as many bytes to the same disk, and one copy in memory of what is saved. Prints both ratios.
void run_checkpoint_command(const CheckpointCommand& command, Backend& backend);

}  // namespace zerolab::bench
