#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace zerolab::bench {

/// A command of benchmark.
struct Command {
  CLI::App* line;             ///< its name and options
  std::function<void()> run;  ///< measures and prints; throws `Error`
};

// One function a command, each in a file of its own, <name>_command.cpp: adds the command's line
// to `program`.
Command add_step(CLI::App& program);
Command add_ranks(CLI::App& program);
Command add_overhead(CLI::App& program);
Command add_overlap(CLI::App& program);
Command add_tokens(CLI::App& program);
Command add_checkpoint(CLI::App& program);

}  // namespace zerolab::bench
