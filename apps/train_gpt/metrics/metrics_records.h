#pragma once

#include <nlohmann/json.hpp>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/metrics/tensorboard_log.h"

namespace zerolab::app {

/// What several records hold: memory by category, collectives by op and purpose, times of a step.
nlohmann::json memory_json(const MemoryLedger::Snapshot& memory);
nlohmann::json communication_json(const CommunicationEntries& entries);
nlohmann::json times_json(const StepTimes& ms);

/// The lines of metrics.jsonl (docs/metrics.md): one function an event.
nlohmann::json config_record(const RunConfig& config);
nlohmann::json layout_record(const RunInfo& info);
/// Who owns what: its first parameters and slices, so that a line stays bounded.
nlohmann::json map_record(const zero::Layout& layout);
nlohmann::json step_record(const StepRecord& record);
/// Memory of rank 0 in the course of a step.
nlohmann::json timeline_record(const StepRecord& record);
/// A step whose gradients were not finite.
nlohmann::json skip_record(const StepRecord& record);
nlohmann::json stage_record(const StageRecord& record);
nlohmann::json checkpoint_record(const checkpoint::Saved& saved);
nlohmann::json resume_record(const checkpoint::Checkpoint& from, const std::string& note);
nlohmann::json evaluation_record(const EvaluationRecord& record);
nlohmann::json sample_record(const SampleRecord& record);
nlohmann::json summary_record(const RunSummary& summary);

/// The same for TensorBoard (docs/metrics.md).
Scalars step_scalars(const StepRecord& record);
Scalars evaluation_scalars(const EvaluationRecord& record);

}  // namespace zerolab::app
