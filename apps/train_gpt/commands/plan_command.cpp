#include "apps/train_gpt/commands/plan_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <sstream>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/planning/plan_report.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "apps/train_gpt/text/json_file.h"
#include "apps/train_gpt/training/dry_run.h"
#include "apps/train_gpt/training/training_run.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::app {
namespace {

int64_t vocab_size_of(const RunConfig& config) {
  return config.model.vocab_size > 0 ? config.model.vocab_size
                                     : load_training_data(config).vocab_size;
}

Plan make_plan(const RunConfig& config, const PlanOptions& options, const Backend& imitated,
               const DeviceModel& device) {
  Plan plan = {.config = config, .vocab_size = vocab_size_of(config), .rows = {}};
  const std::vector<int64_t> numbers =
      options.ranks.empty() ? std::vector{config.launch.ranks} : options.ranks;
  for (const int64_t ranks : numbers) {
    for (const int stage : options.stages) {
      const RunConfig one = with_ranks(with_stage(config, stage), ranks);
      plan.rows.push_back(
          {.prediction = predict(one, plan.vocab_size, imitated, device),
           .micro_batch = largest_micro_batch(one, plan.vocab_size, imitated, device),
           .model = largest_model(one, plan.vocab_size, imitated, device)});
    }
    if (options.map) {
      const RunConfig one = with_ranks(config, ranks);
      fmt::print("{}",
                 map_text(DryRun(one, plan.vocab_size, 0, imitated).trainer().engine().layout()));
    }
  }
  return plan;
}

/// The file's configuration, then one for each of `models`: keys of [model] that are set over it,
/// "n_layer=48,n_embd=1600". Throws `ConfigError`.
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

/// Predicts each of `configs`, which were read for a plan and differ in `[model]` only, under each
/// stage at each number of ranks, and prints tables. Trains nothing and allocates no tensor.
int print_plan(const std::vector<RunConfig>& configs, const PlanOptions& options) {
  const std::unique_ptr<Backend> backend = make_backend(configs.front());
  const DeviceModel device =
      make_device_model(configs.front(), *backend, options.tflops, options.memory_bandwidth_gbps);
  fmt::print("{}", device.text);
  std::vector<Plan> plans;
  for (const RunConfig& config : configs) {
    plans.push_back(make_plan(config, options, *backend, device));
    fmt::print("{}", plan_text(plans.back(), device));
  }
  if (!options.json.empty()) {
    write_json_file(options.json, plan_json(plans, device));
  }
  return 0;
}

std::string positive(const std::string& text) {
  double number = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number > 0.0 && std::isfinite(number) ? std::string()
                                               : "got " + text + ", expected a positive number";
}

}  // namespace

RunConfig with_stage(RunConfig config, int stage) {
  if (!config.zero.schedule.empty()) {
    throw ConfigError("plan", fmt::format("{}: plan sets the stage itself; leave zero.schedule out",
                                          config.set_at.at("zero.schedule")));
  }
  config.zero.stage = stage;
  require_engine_can(config);
  return config;
}

Command add_plan(CLI::App& program) {
  struct Options {
    ConfigOptions config;
    PlanOptions plan;
    std::vector<std::string> models;
    bool check = false;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand(
      "plan", "Predict memory, communication and time of a step for any number of ranks");
  add_config(*line, options->config);
  PlanOptions& plan = options->plan;
  line->add_option("--ranks", plan.ranks,
                   "Numbers of ranks, such as 8,64,1024; without it launch.ranks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 100'000));
  add_stages(*line, plan.stages, "Stages to plan");
  line->add_option("--model", options->models,
                   "Plan another model too: keys of [model] over the file's, such as "
                   "n_layer=48,n_embd=1600; may be repeated")
      ->allow_extra_args(false);
  const auto add_setting = [&](const std::string& name, const std::string& key,
                               const std::string& help) {
    line->add_option_function<std::string>(
        name,
        [options, key](const std::string& value) {
          options->config.overrides.push_back(key + "=" + value);
        },
        fmt::format("{}; short for --set {}=…", help, key));
  };
  add_setting("--link", "comm.bandwidth_gbps", "Gbit/s of a rank's link in each direction");
  add_setting("--latency-us", "comm.latency_us", "Microseconds a round of a collective");
  add_setting("--memory", "launch.memory_limit", "Memory of a rank, such as 80GiB");
  const CLI::Validator is_positive(positive, "POSITIVE");
  line->add_option("--tflops", plan.tflops,
                   "TFLOP/s that a rank reaches in matrix products; without it they are measured "
                   "here, with the memory's bandwidth")
      ->check(is_positive);
  line->add_option("--memory-bandwidth", plan.memory_bandwidth_gbps,
                   "GB/s that a rank reads and writes in its memory; with --tflops alone memory "
                   "takes no time")
      ->check(is_positive);
  CLI::Option* map = line->add_flag(
      "--map", plan.map, "Print the layout: which rank owns which range of which parameter");
  CLI::Option* json =
      line->add_option("--json", plan.json, "Write the result to this file as well");
  line->add_flag("--check", options->check,
                 "Run a few steps under each stage here and set them beside the plan; a byte that "
                 "differs is an error")
      ->excludes("--ranks")
      ->excludes("--model")
      ->excludes(map)
      ->excludes(json);
  return {line, [options] {
            const auto& [file, overrides] = options->config;
            return options->check
                       ? check_plan(load_config(file, overrides), options->plan)
                       : print_plan(plan_configs(file, overrides, options->models), options->plan);
          }};
}

}  // namespace zerolab::app
