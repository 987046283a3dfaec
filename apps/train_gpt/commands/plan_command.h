#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/train_gpt/commands/shared_options.h"
#include "apps/train_gpt/config/config.h"
#include "zero/stage.h"

namespace zerolab::app {

/// What `train-gpt plan` was asked for.
struct PlanOptions {
  std::vector<int64_t> ranks;  ///< empty: launch.ranks
  std::vector<int> stages = all_stages();
  double tflops = 0.0;                 ///< see make_device_model
  double memory_bandwidth_gbps = 0.0;  ///< see make_device_model
  bool map = false;                    ///< print the layouts
  std::string json;                    ///< file for the same as JSON; empty: none
};

/// `config` under `stage`. Throws `ConfigError` for a stage that it does not allow.
RunConfig with_stage(RunConfig config, int stage);

/// `train-gpt plan --check`: predicts a few steps of `config` at its own number of ranks under each
/// stage, runs them, and prints both side by side. Returns 1 when a byte differs: times never fail.
int check_plan(const RunConfig& config, const PlanOptions& options);

}  // namespace zerolab::app
