#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace zerolab::app {

/// A command of train-gpt.
struct Command {
  CLI::App* line;            ///< its name and options
  std::function<int()> run;  ///< with the options that were given; returns the exit status
};

// One function a command, each in a file of its own, <name>_command.cpp: adds the command's line
// to `program`. What `run` throws ends the program: a `ConfigError` with exit status 2, else 1.
Command add_train(CLI::App& program);
Command add_compare(CLI::App& program);
Command add_plan(CLI::App& program);
Command add_report(CLI::App& program);
Command add_checkpoint(CLI::App& program);
Command add_sample(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_export(CLI::App& program);
Command add_prepare(CLI::App& program);
Command add_devices(CLI::App& program);

}  // namespace zerolab::app
