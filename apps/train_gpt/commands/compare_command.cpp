#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/commands/logged_run.h"
#include "apps/train_gpt/commands/report_command.h"
#include "apps/train_gpt/commands/shared_options.h"
#include "apps/train_gpt/commands/stop_signals.h"
#include "apps/train_gpt/report/compare_report.h"
#include "apps/train_gpt/report/compare_variants.h"
#include "apps/train_gpt/setup/modelled_link.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "apps/train_gpt/text/json_file.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

std::filesystem::path run_folder(const RunConfig& config) {
  return std::filesystem::path(config.run.out_dir) / config.run.name;
}

/// A run under each of `configs`, which are variants of `config` (compare_variants.h); prints one
/// table and writes it as <out_dir>/<name>/compare.json of `config`, and the runs' report beside
/// it.
int compare(const RunConfig& config, const std::vector<RunConfig>& configs,
            const std::atomic<bool>& stop) {
  if (!config.zero.schedule.empty()) {
    throw ConfigError("compare", fmt::format("{}: compare sets the stage of each run itself; leave "
                                             "zero.schedule out, or use train",
                                             config.set_at.at("zero.schedule")));
  }
  if (!config.log.dashboard.empty()) {
    throw ConfigError("compare",
                      fmt::format("{}: log.dashboard shows one run; leave it out, or use "
                                  "train; compare writes its report at the end",
                                  config.set_at.at("log.dashboard")));
  }
  const TrainingData data = load_training_data(config);
  std::vector<Compared> runs;
  int status = 0;
  for (const RunConfig& one : configs) {
    runs.emplace_back().predicted = require_fits(one, data.vocab_size);
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].summary = run_logged(configs[i], data, stop);
    status = runs[i].summary.trace_error.empty() ? status : 1;
    if (runs[i].summary.stopped) {
      fmt::print("stopped on request: no comparison\n");
      return status;
    }
  }

  fmt::print("\n{} parameters, {} ranks, {} micro-batches of {} x {} tokens a step, {} steps\n",
             runs.front().summary.info.num_params, config.launch.ranks,
             config.train.gradient_accumulation_steps, config.train.micro_batch_size,
             config.model.block_size, config.run.steps);
  if (const std::string link = modelled_link_text(config.comm); !link.empty()) {
    fmt::print("{}\n", link);
  }
  fmt::print("{}{}", comparison_table(config, runs), reduction_lesson(runs));
  const std::filesystem::path folder = run_folder(config);
  write_json_file(folder / "compare.json", comparison_json(config, runs));
  if (config.log.metrics) {
    std::vector<std::filesystem::path> folders;
    std::ranges::transform(configs, std::back_inserter(folders), run_folder);
    write_report(folders, folder / "report.html");
  }
  return status;
}

}  // namespace

Command add_compare(CLI::App& program) {
  struct Options {
    ConfigOptions config;
    std::vector<int> stages = all_stages();
    bool variants = false;
    std::vector<std::string> precisions;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line =
      program.add_subcommand("compare", "Train once a variant and set them side by side");
  add_config(*line, options->config);
  CLI::Option* stages = add_stages(*line, options->stages, "Stages to compare");
  line->add_flag("--variants", options->variants,
                 "Compare ways to reduce gradients instead: DDP, the first ZeRO-1 (all-reduce), "
                 "and ZeRO-1 and ZeRO-2 with a reduction to each owner and with a reduce-scatter")
      ->excludes(stages);
  line->add_option("--precisions", options->precisions,
                   "Compare precisions instead, under the configuration's stage: "
                   "fp32,tf32,bf16,fp16")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}))
      ->excludes(stages)
      ->excludes("--variants");
  return {line, [options] {
            const std::atomic<bool>& stop = stop_on_signals();
            const auto& [file, overrides] = options->config;
            const std::vector<ComparedVariant> columns =
                !options->precisions.empty() ? precision_variants(options->precisions)
                : options->variants          ? reduction_variants()
                                             : stage_variants(options->stages);
            return compare(load_config(file, overrides), configs_of(file, overrides, columns),
                           stop);
          }};
}

}  // namespace zerolab::app
