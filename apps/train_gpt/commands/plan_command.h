#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "zero/stage.h"

namespace zerolab::app {

/// What `train-gpt plan` was asked for.
struct PlanOptions {
  std::vector<int64_t> ranks;  ///< empty: launch.ranks
  std::vector<int> stages{zero::kStages.begin(), zero::kStages.end()};
  double tflops = 0.0;                 ///< see make_machine
  double memory_bandwidth_gbps = 0.0;  ///< see make_machine
  bool map = false;                    ///< print the layouts
  std::string json;                    ///< file for the same as JSON; empty: none
};

/// The file's configuration, then one for each of `models`: keys of [model] that are set over it,
/// "n_layer=48,n_embd=1600". Throws `ConfigError`.
std::vector<RunConfig> plan_configs(const std::filesystem::path& file,
                                    const std::vector<std::string>& overrides,
                                    const std::vector<std::string>& models);

/// `train-gpt plan`: predicts each of `configs`, which were read for a plan and differ in `[model]`
/// only, under each stage at each number of ranks, and prints tables. Trains nothing and allocates
/// no tensor. Throws `ConfigError` for a stage that a configuration does not allow.
int plan_command(const std::vector<RunConfig>& configs, const PlanOptions& options);

/// `train-gpt plan --check`: predicts a few steps of `config` at its own number of ranks under each
/// stage, runs them, and prints both side by side. Returns 1 when a byte differs: times never fail.
int plan_check_command(const RunConfig& config, const PlanOptions& options);

}  // namespace zerolab::app
