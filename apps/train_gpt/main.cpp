#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>

#include "apps/train_gpt/commands/command_line.h"
#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/version.h"
#include "framework/core/error.h"
#include "framework/memory/allocator.h"

namespace {

std::atomic<bool> stop_requested = false;

extern "C" void request_stop(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);  // a second one ends at once
}

}  // namespace

int main(int argc, char** argv) {
  using namespace zerolab;
  keep_large_blocks();

  CLI::App program("train-gpt: trains a GPT under DDP, ZeRO-1 or ZeRO-2, and compares them.");
  program.set_version_flag("--version", app::kVersion);
  program.require_subcommand(1);
  program.footer([] { return app::config_help(); });
  const std::vector<app::Command> commands = app::add_commands(program, stop_requested);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version
    return program.exit(error) == 0 ? 0 : 2;
  }
  const app::Command& command = *std::ranges::find_if(
      commands, [](const app::Command& candidate) { return candidate.line->parsed(); });
  if (command.stops) {
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
  }
  try {
    return command.run();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
