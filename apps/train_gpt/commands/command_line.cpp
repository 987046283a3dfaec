#include "apps/train_gpt/commands/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/version.h"
#include "framework/core/error.h"

namespace zerolab::app {

int run_command_line(int argc, char** argv) {
  CLI::App program("train-gpt: trains a GPT under DDP, ZeRO-1 or ZeRO-2, and compares them.");
  program.set_version_flag("--version", kVersion);
  program.require_subcommand(1);
  program.footer([] { return config_help(); });
  const std::vector<Command> commands = {
      add_train(program),      add_compare(program), add_plan(program), add_report(program),
      add_checkpoint(program), add_sample(program),  add_eval(program), add_export(program),
      add_prepare(program),    add_devices(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version
    return program.exit(error) == 0 ? 0 : 2;
  }
  try {
    return std::ranges::find_if(commands,
                                [](const Command& command) { return command.line->parsed(); })
        ->run();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace zerolab::app
