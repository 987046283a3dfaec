#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::data {

/// Text to tokens and back. Immutable after construction, so all ranks may share one. Tokens lie in
/// [0, vocab_size()), and decode(encode(text)) == text for every text that can be encoded.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;
  virtual int64_t vocab_size() const = 0;

  /// Throws `Error` where the text holds something outside the vocabulary.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// Throws `Error` on a token outside [0, vocab_size()).
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;
};

/// Makes the tokenizer called `name`:
///   byte  every byte is its own token; 256 tokens.
///   char  the distinct bytes of `texts`, sorted, numbered from 0 (nanoGPT's character vocabulary,
///         for texts of one byte a character). The decoded vocabulary is itself a text that makes
///         the same tokenizer again.
/// Throws `ConfigError` on any other name, and for char where `texts` hold no byte.
std::unique_ptr<const Tokenizer> make_tokenizer(std::string_view name,
                                                std::span<const std::string_view> texts);

}  // namespace zerolab::data
