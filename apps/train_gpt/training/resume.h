#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/training/rank_trainer.h"
#include "checkpoint/checkpoint.h"

namespace zerolab::app {

/// The checkpoint that `--resume` names: a path, or "latest": the newest of the run that `config`
/// names; null `config`: of all runs in the default run.out_dir. Throws `Error` if there is
/// none.
std::filesystem::path find_resume(const std::string& resume, const RunConfig* config);

/// The configuration that `state` was saved with, and `overrides` over it. Where those change the
/// number of ranks, the global batch stays, and what depends on the ranks is chosen anew.
RunConfig resumed_config(const checkpoint::TrainState& state,
                         const std::vector<std::string>& overrides);

/// Refuses what cannot be resumed (another model, vocabulary or global batch, no step left), and
/// brings the stage to where `[[zero.schedule]]` had it.
void prepare_resume(RunConfig& config, const TrainingData& data,
                    const checkpoint::Checkpoint& checkpoint);

/// A message for the user: whether the run goes on with the bits of one that never stopped, and if
/// not, which keys are in the way.
std::string resume_note(const RunConfig& config, const checkpoint::Checkpoint& checkpoint);

}  // namespace zerolab::app
