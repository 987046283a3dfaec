#pragma once

#include <nlohmann/json_fwd.hpp>

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// What a run was made with and on: the machine, the system, the compiler and the libraries
/// (docs/metrics.md). With the threads per rank it decides whether two runs' bits can be compared.
nlohmann::json environment_json(const RunConfig& config);

}  // namespace zerolab::app
