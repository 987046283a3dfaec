#pragma once

#include <atomic>
#include <filesystem>

#include "apps/train_gpt/commands/prepare_state.h"
#include "data/tokenizer.h"

namespace zerolab::app {

/// Turns the inputs of `state` into llm.c shards in `folder`, from where `state` says on, and shows
/// on a terminal how far it is. `state` and its file follow each finished shard. `stop` ends it
/// between two blocks of text. Throws `Error` if a file cannot be read or written.
void prepare_shards(const std::filesystem::path& folder, const data::Tokenizer& tokenizer,
                    int threads, PrepareState& state, const std::atomic<bool>& stop);

}  // namespace zerolab::app
