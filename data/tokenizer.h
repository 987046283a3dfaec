#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::data {

/// Encodes texts that come in parts of any size, in memory that does not grow with the text. For
/// one thread; its tokenizer must outlive it.
class TokenStream {
 public:
  virtual ~TokenStream() = default;

  /// Appends the tokens that no further text can change. Throws `Error` if the text holds
  /// something outside the vocabulary.
  virtual void push(std::string_view text, std::vector<int32_t>& tokens) = 0;

  /// Appends the rest; the next `push` begins another text. However a text was cut, its tokens are
  /// the same.
  virtual void finish(std::vector<int32_t>& tokens) = 0;
};

/// Text to tokens and back. Immutable after construction, so all ranks may share one. Tokens lie in
/// [0, vocab_size()), and decode(encode(text)) == text for every text that can be encoded.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::string_view name() const = 0;
  virtual int64_t vocab_size() const = 0;

  /// The token that stands between two texts; no text has it.
  virtual std::optional<int32_t> end_of_text() const { return std::nullopt; }

  virtual std::unique_ptr<TokenStream> stream() const = 0;

  /// The last place where `text` can be cut into two whose tokens, one after the other, are those
  /// of the whole, whatever comes before and after; 0 where none is found.
  virtual size_t last_cut(std::string_view text) const = 0;

  /// Throws `Error` on a token outside [0, vocab_size()).
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  /// Throws as `TokenStream::push` does.
  std::vector<int32_t> encode(std::string_view text) const;

 protected:
  void require_token(int32_t token) const;
};

/// Makes the tokenizer called `name`:
///   byte  every byte is its own token; 256 tokens.
///   char  the distinct bytes of `texts`, sorted, numbered from 0 (nanoGPT's character vocabulary,
///         for texts of one byte a character). The decoded vocabulary is itself a text that makes
///         the same tokenizer again.
///   gpt2  GPT-2's byte-level BPE; `vocab` is the folder of its encoder.json and vocab.bpe.
/// Throws `ConfigError` on any other name, for char where `texts` hold no byte, and for gpt2 where
/// the folder does not hold such files.
std::unique_ptr<const Tokenizer> make_tokenizer(std::string_view name,
                                                std::span<const std::string_view> texts,
                                                const std::string& vocab = "");

}  // namespace zerolab::data
