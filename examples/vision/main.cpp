#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "examples/vision/vision.h"

int main(int argc, char** argv) {
  zerolab::examples::VisionOptions options;
  CLI::App program("A small vision transformer learns the direction of lines under any stage.");
  program.option_defaults()->always_capture_default();
  program.add_option("--stage", options.stage, "0: DDP, 1: ZeRO-1, 2: ZeRO-2");
  program.add_option("--ranks", options.ranks, "Ranks in this process");
  program.add_option("--steps", options.steps, "Optimizer steps");
  program.add_option("--optimizer", options.optimizer, "adamw, sgd or lion");
  program.add_option("--lr", options.learning_rate, "Learning rate");
  program.add_option("--checkpoints", options.checkpoints,
                     "Folder to save to, and to go on from if it has a checkpoint");
  CLI11_PARSE(program, argc, argv);
  try {
    const zerolab::examples::VisionResult result = zerolab::examples::train_vision(options);
    fmt::print("{} steps, loss {:.4f}, accuracy {:.1f} %\n\nmemory of rank 0:\n{}\n",
               result.losses.size(), result.losses.empty() ? 0.0 : result.losses.back(),
               100.0 * result.accuracy, result.memory_table);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
