#pragma once

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/training/run_reporter.h"
#include "framework/comm/communicator.h"
#include "framework/tensor/rank_context.h"
#include "zero/engine.h"

namespace zerolab::app {

/// The switch that `[[zero.schedule]]` sets before `step`; null: none.
const StageSwitch* switch_before(const RunConfig& config, int64_t step);

/// Changes the stage and reports it with the memory of every rank. Called by all ranks, between two
/// steps.
void switch_stage(const StageSwitch& change, RankContext& context, Communicator& communicator,
                  zero::Engine& engine, Board& board, Reporter& reporter);

}  // namespace zerolab::app
