#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "apps/train_gpt/metrics/log_reader.h"

namespace zerolab::app {

/// All that the report's page shows (docs/report.md): {"version", "runs": [...]}, in the order of
/// `runs`, which are not empty. A log's own numbers stand in it as they are; a field that a log
/// lacks, or has with another type, is null or left out, as is a difference from a formula that
/// does not hold for the run. Of bounded size: curves are thinned out.
nlohmann::json report_data(const std::vector<LoggedRun>& runs);

}  // namespace zerolab::app
