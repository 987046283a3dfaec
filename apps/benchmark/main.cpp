#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "apps/benchmark/command.h"
#include "framework/memory/allocator.h"

int main(int argc, char** argv) {
  using namespace zerolab;
  keep_large_blocks();

  CLI::App program("benchmark: how fast zerolab trains, and against which limit.");
  program.require_subcommand(1);
  const std::vector<bench::Command> commands = {
      bench::add_step(program),    bench::add_ranks(program),  bench::add_overhead(program),
      bench::add_overlap(program), bench::add_tokens(program), bench::add_checkpoint(program)};
  CLI11_PARSE(program, argc, argv);
  try {
    std::ranges::find_if(commands, [](const bench::Command& command) {
      return command.line->parsed();
    })->run();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
