#pragma once

#include "apps/train_gpt/config/config.h"
#include "models/gpt.h"
#include "zero/options.h"
#include "zero/stage_plan.h"

namespace zerolab::app {

/// Of parameters and activations: `train.precision`.
DType parameter_dtype(const RunConfig& config);

/// The model of `[model]`, whose vocabulary may be the tokenizer's.
GptConfig gpt_config(const RunConfig& config, int64_t vocab_size);

/// What a resolved configuration asks of the engine.
zero::EngineOptions engine_options(const RunConfig& config);
zero::DebugOptions debug_options(const RunConfig& config);
/// Of all keys: ranks with equal hashes were configured alike.
uint64_t configuration_hash(const RunConfig& config);

/// Refuses what the engine refuses, with the engine's reason and the place of the key that it
/// names: before a rank starts or a file is written.
void require_engine_can(const RunConfig& config);

}  // namespace zerolab::app
