#include <algorithm>
#include <filesystem>
#include <iterator>

#include "apps/train_gpt/commands/commands.h"
#include "apps/train_gpt/report/compare_report.h"
#include "apps/train_gpt/setup/modelled_link.h"
#include "apps/train_gpt/text/json_file.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

std::filesystem::path run_folder(const RunConfig& config) {
  return std::filesystem::path(config.run.out_dir) / config.run.name;
}

}  // namespace

int compare_command(const RunConfig& config, const std::vector<RunConfig>& configs,
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

}  // namespace zerolab::app
