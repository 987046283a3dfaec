#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "apps/train_gpt/commands.h"
#include "apps/train_gpt/version.h"
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
  std::string file;
  std::vector<std::string> overrides;
  const auto add_config = [&](CLI::App& command) {
    command.add_option("CONFIG", file, "TOML file")->required();
    command
        .add_option("--set", overrides,
                    "section.key=value, over what the file says; may be repeated")
        ->allow_extra_args(false);
  };
  CLI::App* train = program.add_subcommand("train", "Train one run");
  add_config(*train);
  CLI::App* compare =
      program.add_subcommand("compare", "Train once under each stage and set them side by side");
  add_config(*compare);
  std::vector<int> stages = {0, 1, 2};
  CLI::Option* stages_option = compare->add_option("--stages", stages, "Stages to compare")
                                   ->delimiter(',')
                                   ->check(CLI::Range(0, 2));
  bool variants = false;
  compare
      ->add_flag(
          "--variants", variants,
          "Compare ways to reduce gradients instead: DDP, the first ZeRO-1 (all-reduce), and "
          "ZeRO-1 and ZeRO-2 with a reduction to each owner and with a reduce-scatter")
      ->excludes(stages_option);

  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version
    return program.exit(error) == 0 ? 0 : 2;
  }
  try {
    const app::RunConfig config = app::load_config(file, overrides);
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    return *train ? app::train_command(config, stop_requested)
                  : app::compare_command(
                        config, variants ? app::reduction_variants() : app::stage_variants(stages),
                        stop_requested);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
