#pragma once

#include <memory>

#include "apps/train_gpt/config/config.h"
#include "framework/tensor/rank_context.h"
#include "models/gpt.h"

namespace zerolab::app {

/// The model of `[model]` with `vocab_size` tokens and its initial weights: those of
/// `model.init_from`, else random ones. Throws `ConfigError` if that file does not fit; also in
/// a dry run, so that it is refused before anything is written.
std::unique_ptr<Gpt> make_model(const RunConfig& config, RankContext& context, int64_t vocab_size);

}  // namespace zerolab::app
