#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "apps/train_gpt/config/config.h"
#include "data/tokenizer.h"

namespace zerolab::app {

/// The tokenizer of `[data]`; `texts` give a char tokenizer its vocabulary.
std::unique_ptr<const data::Tokenizer> tokenizer_of(const RunConfig& config,
                                                    std::span<const std::string_view> texts);

/// The same for a run on token shards, which do not say what their tokens are: throws `ConfigError`
/// unless `config` sets data.tokenizer.
std::unique_ptr<const data::Tokenizer> tokenizer_of_shards(const RunConfig& config);

/// How many tokens the model has: model.vocab_size, or the tokenizer's where that is 0. Throws
/// `ConfigError` where they are fewer than the tokenizer's.
int64_t vocab_size_of(const RunConfig& config, const data::Tokenizer& tokenizer);

/// The token that stands before a text's first: the end of text that a vocabulary has, else
/// newline, or token 0 where it has neither.
int32_t start_token(const data::Tokenizer& tokenizer);

}  // namespace zerolab::app
