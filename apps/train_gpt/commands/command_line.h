#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <vector>

namespace zerolab::app {

/// A command of train-gpt.
struct Command {
  CLI::App* line;            ///< parsed() where the command line names it
  std::function<int()> run;  ///< with the options that were given; returns the exit status
  bool stops = false;        ///< it ends in order when `stop` is set
};

/// Adds all commands, with their options, to `program`. `stop` outlives them.
std::vector<Command> add_commands(CLI::App& program, const std::atomic<bool>& stop);

}  // namespace zerolab::app
