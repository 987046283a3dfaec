#include "apps/train_gpt/commands/plan_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "apps/train_gpt/planning/plan_report.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "apps/train_gpt/text/json_file.h"
#include "apps/train_gpt/text/text_table.h"
#include "apps/train_gpt/training/dry_run.h"
#include "apps/train_gpt/training/training_run.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::app {
namespace {

/// `config` under `stage`, at its own number of ranks.
RunConfig with_stage(RunConfig config, int stage) {
  if (!config.zero.schedule.empty()) {
    throw ConfigError("plan", fmt::format("{}: plan sets the stage itself; leave zero.schedule out",
                                          config.set_at.at("zero.schedule")));
  }
  config.zero.stage = stage;
  require_engine_can(config);
  return config;
}

int64_t vocab_size_of(const RunConfig& config) {
  return config.model.vocab_size > 0 ? config.model.vocab_size
                                     : load_training_data(config).vocab_size;
}

Plan make_plan(const RunConfig& config, const PlanOptions& options, const Backend& imitated,
               const Machine& machine) {
  Plan plan = {.config = config, .vocab_size = vocab_size_of(config), .rows = {}};
  const std::vector<int64_t> numbers =
      options.ranks.empty() ? std::vector{config.launch.ranks} : options.ranks;
  for (const int64_t ranks : numbers) {
    for (const int stage : options.stages) {
      const RunConfig one = with_ranks(with_stage(config, stage), ranks);
      plan.rows.push_back(
          {.prediction = predict(one, plan.vocab_size, imitated, machine),
           .micro_batch = largest_micro_batch(one, plan.vocab_size, imitated, machine),
           .model = largest_model(one, plan.vocab_size, imitated, machine)});
    }
    if (options.map) {
      const RunConfig one = with_ranks(config, ranks);
      fmt::print("{}",
                 map_text(DryRun(one, plan.vocab_size, 0, imitated).trainer().engine().layout()));
    }
  }
  return plan;
}

/// The shortest step is the one that other programs disturbed least.
class ShortestStep final : public RunObserver {
 public:
  void on_step(const StepRecord& record) override { ms = std::min(ms, record.ms.step); }
  double ms = std::numeric_limits<double>::infinity();
};

/// A stage's prediction and what came of it.
struct Checked {
  Prediction prediction;
  RunSummary run;  ///< the last
  ShortestStep step;

  double sent() const { return run.bytes_sent_per_step(); }
  double predicted_sent() const {
    return static_cast<double>(prediction.bytes_sent(Purpose::kGradient) +
                               prediction.bytes_sent(Purpose::kParameter));
  }
  bool bytes_agree() const {
    return std::ranges::all_of(run.memory,
                               [&](const MemoryLedger::Snapshot& memory) {
                                 return memory.at_total_peak == prediction.memory.at_total_peak &&
                                        memory.current == prediction.memory.current;
                               }) &&
           sent() == predicted_sent();
  }
};

std::string checked_table(const std::vector<Checked>& stages) {
  std::vector<std::vector<std::string>> rows = {{"", "peak bytes", "measured", "bytes sent",
                                                 "measured", "step ms", "measured", "ratio",
                                                 "measured", "difference"}};
  const Checked& first = stages.front();
  for (const Checked& stage : stages) {
    const double ratio = stage.prediction.ms.step / first.prediction.ms.step;
    const double measured = stage.step.ms / first.step.ms;
    rows.push_back(
        {std::string(zero::name_of_stage(stage.prediction.options.stage)),
         fmt::format("{}", stage.prediction.memory.total_peak),
         fmt::format("{}", stage.run.memory[0].total_peak),
         fmt::format("{:.0f}", stage.predicted_sent()), fmt::format("{:.0f}", stage.sent()),
         fmt::format("{:.2f}", stage.prediction.ms.step), fmt::format("{:.2f}", stage.step.ms),
         fmt::format("{:.3f}", ratio), fmt::format("{:.3f}", measured),
         fmt::format("{:+.1f} %", 100.0 * (ratio / measured - 1.0))});
  }
  return text_table(rows);
}

}  // namespace

std::vector<RunConfig> plan_configs(const std::filesystem::path& file,
                                    const std::vector<std::string>& overrides,
                                    const std::vector<std::string>& models) {
  std::vector<RunConfig> configs = {load_config(file, overrides, ConfigUse::kPlan)};
  for (const std::string& model : models) {
    std::vector<std::string> settings = overrides;
    std::istringstream keys(model);
    for (std::string key; std::getline(keys, key, ',');) {
      settings.push_back("model." + key);
    }
    configs.push_back(load_config(file, settings, ConfigUse::kPlan));
  }
  return configs;
}

int plan_command(const std::vector<RunConfig>& configs, const PlanOptions& options) {
  const std::unique_ptr<Backend> backend = make_backend(configs.front());
  const Machine machine =
      make_machine(configs.front(), *backend, options.tflops, options.memory_bandwidth_gbps);
  fmt::print("{}", machine.text);
  std::vector<Plan> plans;
  for (const RunConfig& config : configs) {
    plans.push_back(make_plan(config, options, *backend, machine));
    fmt::print("{}", plan_text(plans.back(), machine));
  }
  if (!options.json.empty()) {
    write_json_file(options.json, plan_json(plans, machine));
  }
  return 0;
}

int plan_check_command(const RunConfig& config, const PlanOptions& options) {
  constexpr int64_t kSteps = 6;
  constexpr int kRounds = 3;
  RunConfig run = config;
  run.run.steps = kSteps;
  run.run.eval_every = 0;
  run.schedule.warmup_steps = std::min(run.schedule.warmup_steps, kSteps);
  const TrainingData data = load_training_data(run);
  const std::unique_ptr<Backend> backend = make_backend(run);
  const Machine machine =
      make_machine(run, *backend, options.tflops, options.memory_bandwidth_gbps);
  fmt::print("{}", machine.text);
  std::vector<RunConfig> configs;
  std::vector<Checked> stages;
  for (const int stage : options.stages) {
    const RunConfig& one = configs.emplace_back(with_stage(run, stage));
    stages.emplace_back().prediction =
        predict(with_ranks(one, one.launch.ranks), data.vocab_size, *backend, machine);
  }
  // The stages take turns, so that none has the machine at its worst alone.
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < stages.size(); ++i) {
      stages[i].run = run_training(configs[i], data, stages[i].step, false);
    }
  }
  fmt::print(
      "\nEach number as planned and as measured in {} runs of {} steps (ms: rank 0, the shortest "
      "step); ratio: step to the first stage's\n{}",
      kRounds, kSteps, checked_table(stages));
  const bool agree = std::ranges::all_of(stages, &Checked::bytes_agree);
  fmt::print("every byte of every rank is as planned: {}\n", agree ? "yes" : "NO");
  return agree ? 0 : 1;
}

}  // namespace zerolab::app
