#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"

namespace zerolab::app {

/// One column's run and what was predicted for it.
struct Compared {
  RunSummary summary;
  MemoryLedger::Snapshot predicted;  ///< rank 0's, by the dry run
};

/// The table: memory, bytes sent, times, result; one column a run. Ratios and losses are against
/// the first.
std::string comparison_table(const RunConfig& config, const std::vector<Compared>& runs);

/// Why a reduction to each owner takes longer than a reduce-scatter of the same bytes, with the
/// runs' own numbers; empty where no stage has both, or one rank is alone.
std::string reduction_lesson(const std::vector<Compared>& runs);

/// compare.json (docs/metrics.md).
nlohmann::json comparison_json(const RunConfig& config, const std::vector<Compared>& runs);

}  // namespace zerolab::app
