#include "apps/train_gpt/setup/run_tokenizer.h"

#include "framework/core/error.h"

namespace zerolab::app {

std::unique_ptr<const data::Tokenizer> tokenizer_of(const RunConfig& config,
                                                    std::span<const std::string_view> texts) {
  return data::make_tokenizer(config.data.tokenizer, texts, config.data.vocab);
}

std::unique_ptr<const data::Tokenizer> tokenizer_of_shards(const RunConfig& config) {
  // The default says nothing, but gpt2 has always been named: it needs data.vocab.
  if (!config.set_at.contains("data.tokenizer") && config.data.tokenizer != "gpt2") {
    throw ConfigError("config",
                      fmt::format("{}: token shards do not say what their tokens are; name the "
                                  "tokenizer with --set data.tokenizer=NAME",
                                  config.source));
  }
  return tokenizer_of(config, {});
}

int64_t vocab_size_of(const RunConfig& config, const data::Tokenizer& tokenizer) {
  const int64_t vocab_size = config.model.vocab_size;
  if (vocab_size == 0) {
    return tokenizer.vocab_size();
  }
  if (vocab_size < tokenizer.vocab_size()) {
    throw ConfigError(
        "data", fmt::format("model.vocab_size is too small for the {} tokenizer; got {}, expected "
                            "at least {} (0 takes the tokenizer's)",
                            tokenizer.name(), vocab_size, tokenizer.vocab_size()));
  }
  return vocab_size;
}

int32_t start_token(const data::Tokenizer& tokenizer) {
  if (tokenizer.end_of_text().has_value()) {
    return *tokenizer.end_of_text();
  }
  for (int32_t token = 0; token < tokenizer.vocab_size(); ++token) {
    if (tokenizer.decode(std::span(&token, 1)) == "\n") {
      return token;
    }
  }
  return 0;
}

}  // namespace zerolab::app
