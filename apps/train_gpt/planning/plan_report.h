#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/train_gpt/planning/largest_fit.h"
#include "apps/train_gpt/planning/prediction.h"
#include "zero/layout.h"

namespace zerolab::app {

/// One row of a plan: one stage at one number of ranks.
struct PlanRow {
  Prediction prediction;
  LargestFit micro_batch;
  LargestFit model;
};

/// The rows of one model.
struct Plan {
  RunConfig config;
  int64_t vocab_size = 0;
  std::vector<PlanRow> rows;
};

/// The model, and tables of model states, of the peak, of what fits and of a step; one row a stage
/// and number of ranks.
std::string plan_text(const Plan& plan, const DeviceModel& device);

/// The file of --json (docs/plan.md): what the tables hold, in exact bytes.
nlohmann::json plan_json(const std::vector<Plan>& plans, const DeviceModel& device);

/// Which range of which parameter each rank owns, and how much padding; of many ranks the first
/// few and the last.
std::string map_text(const zero::Layout& layout);

}  // namespace zerolab::app
