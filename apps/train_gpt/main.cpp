#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "apps/train_gpt/commands.h"
#include "apps/train_gpt/compare_variants.h"
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
      program.add_subcommand("compare", "Train once a variant and set them side by side");
  add_config(*compare);
  std::vector<int> stages = {0, 1, 2};
  CLI::Option* stages_option = compare->add_option("--stages", stages, "Stages to compare")
                                   ->delimiter(',')
                                   ->allow_extra_args(false)
                                   ->check(CLI::Range(0, 2));
  bool variants = false;
  compare
      ->add_flag(
          "--variants", variants,
          "Compare ways to reduce gradients instead: DDP, the first ZeRO-1 (all-reduce), and "
          "ZeRO-1 and ZeRO-2 with a reduction to each owner and with a reduce-scatter")
      ->excludes(stages_option);
  std::vector<std::string> precisions;
  compare
      ->add_option(
          "--precisions", precisions,
          "Compare precisions instead, under the configuration's stage: fp32,tf32,bf16,fp16")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}))
      ->excludes(stages_option)
      ->excludes("--variants");
  CLI::App* report = program.add_subcommand(
      "report", "Show what runs have logged as one HTML page, which works offline");
  std::vector<std::filesystem::path> runs;
  report->add_option("RUN", runs, "Folders of runs, or their metrics.jsonl")->required();
  std::filesystem::path page = "report.html";
  report->add_option("-o,--output", page, "The page")->capture_default_str();
  CLI::App* devices =
      program.add_subcommand("devices", "List what launch.device can name on this machine");

  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version
    return program.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (*devices) {
      app::devices_command();
      return 0;
    }
    if (*report) {
      app::write_report(runs, page);
      return 0;
    }
    const app::RunConfig config = app::load_config(file, overrides);
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    if (*train) {
      return app::train_command(config, stop_requested);
    }
    const std::vector<app::Variant> columns = !precisions.empty()
                                                  ? app::precision_variants(precisions)
                                              : variants ? app::reduction_variants()
                                                         : app::stage_variants(stages);
    return app::compare_command(config, app::configs_of(file, overrides, columns), stop_requested);
  } catch (const ConfigError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
