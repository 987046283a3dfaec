#pragma once

#include "apps/train_gpt/config/config.h"
#include "models/gpt.h"
#include "zero/options.h"

namespace zerolab::app {

/// Of parameters and activations: `train.precision`.
DType parameter_dtype(const RunConfig& config);

/// The model of `[model]`, whose vocabulary may be the tokenizer's.
GptConfig gpt_config(const RunConfig& config, int64_t vocab_size);

/// What a resolved configuration asks of the engine.
zero::EngineOptions engine_options(const RunConfig& config);

/// Refuses what the engine refuses, with the engine's reason and the place of the key that it
/// names: before a rank starts or a file is written.
void require_engine_can(const RunConfig& config);

}  // namespace zerolab::app
