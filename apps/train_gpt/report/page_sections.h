#pragma once

#include <nlohmann/json.hpp>

#include "apps/train_gpt/metrics/log_reader.h"

namespace zerolab::app {

// The parts of a run's data on the report's page (docs/report.md).

/// Bytes of every rank at its peak, and the state's formula against the rank that holds most.
nlohmann::json memory_section(const LoggedRun& run);
/// Memory of rank 0 in the course of a step, under each stage.
nlohmann::json timelines_section(const LoggedRun& run);
/// Sent a step and rank: means over ranks and steps.
nlohmann::json communication_section(const LoggedRun& run);
nlohmann::json throughput_section(const LoggedRun& run);
/// The curves, and how the losses differ from those of `first`.
nlohmann::json loss_section(const LoggedRun& run, const LoggedRun& first);
/// Which range of each parameter which rank owns: parameters cut by slices.
nlohmann::json layout_section(const LoggedRun& run);

}  // namespace zerolab::app
