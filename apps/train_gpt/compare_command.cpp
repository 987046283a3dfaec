#include <filesystem>
#include <fstream>

#include "apps/train_gpt/commands.h"
#include "apps/train_gpt/compare_report.h"
#include "apps/train_gpt/modelled_link.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

void write_json(const std::filesystem::path& path, const nlohmann::json& json) {
  std::ofstream out(path);
  out << json.dump(1) << "\n";
  out.close();
  require(out.good(), "compare", "cannot write {}; is the disk full?", path.string());
  fmt::print("\nthe same as JSON: {}\n", path.string());
}

}  // namespace

int compare_command(const RunConfig& config, const std::vector<RunConfig>& configs,
                    const std::atomic<bool>& stop) {
  if (!config.zero.schedule.empty()) {
    throw ConfigError("compare", fmt::format("{}: compare sets the stage of each run itself; leave "
                                             "zero.schedule out, or use train",
                                             config.set_at.at("zero.schedule")));
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
  write_json(std::filesystem::path(config.run.out_dir) / config.run.name / "compare.json",
             comparison_json(config, runs));
  return status;
}

}  // namespace zerolab::app
