#include "data/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <numeric>

#include "data/bpe_tokenizer.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace {

constexpr int kNumBytes = 256;
constexpr int32_t kNotInVocabulary = -1;

/// A tokenizer of one byte a token, given by the bytes of its vocabulary in token order.
class ByteTableTokenizer final : public Tokenizer {
 public:
  ByteTableTokenizer(std::string_view name, std::string vocabulary)
      : name_(name), vocabulary_(std::move(vocabulary)) {
    token_of_byte_.fill(kNotInVocabulary);
    for (size_t token = 0; token < vocabulary_.size(); ++token) {
      token_of_byte_[static_cast<uint8_t>(vocabulary_[token])] = static_cast<int32_t>(token);
    }
  }

  std::string_view name() const override { return name_; }
  int64_t vocab_size() const override { return static_cast<int64_t>(vocabulary_.size()); }

  std::unique_ptr<TokenStream> stream() const override;
  size_t last_cut(std::string_view text) const override { return text.size(); }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const int32_t token : tokens) {
      require_token(token);
      text.push_back(vocabulary_[static_cast<size_t>(token)]);
    }
    return text;
  }

  int32_t token_of(uint8_t byte, uint64_t offset) const {
    const int32_t token = token_of_byte_[byte];
    require(token != kNotInVocabulary, "tokenizer",
            "a byte outside the {} vocabulary; got 0x{:02x} at offset {}, expected one of the {} "
            "bytes of the training corpus",
            name_, byte, offset, vocab_size());
    return token;
  }

 private:
  std::string name_;
  std::string vocabulary_;
  std::array<int32_t, kNumBytes> token_of_byte_;
};

class ByteTableStream final : public TokenStream {
 public:
  explicit ByteTableStream(const ByteTableTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void push(std::string_view text, std::vector<int32_t>& tokens) override {
    for (const char c : text) {
      tokens.push_back(tokenizer_.token_of(static_cast<uint8_t>(c), offset_++));
    }
  }
  void finish(std::vector<int32_t>&) override { offset_ = 0; }

 private:
  const ByteTableTokenizer& tokenizer_;
  uint64_t offset_ = 0;
};

std::unique_ptr<TokenStream> ByteTableTokenizer::stream() const {
  return std::make_unique<ByteTableStream>(*this);
}

std::string all_bytes() {
  std::string bytes(kNumBytes, '\0');
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

std::string distinct_bytes(std::span<const std::string_view> texts) {
  std::array<bool, kNumBytes> present = {};
  for (const std::string_view text : texts) {
    for (const char c : text) {
      present[static_cast<uint8_t>(c)] = true;
    }
  }
  std::string bytes = all_bytes();
  std::erase_if(bytes, [&](char c) { return !present[static_cast<uint8_t>(c)]; });
  return bytes;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  const std::unique_ptr<TokenStream> encoder = stream();
  encoder->push(text, tokens);
  encoder->finish(tokens);
  return tokens;
}

void Tokenizer::require_token(int32_t token) const {
  require(token >= 0 && token < vocab_size(), "tokenizer",
          "a token outside the {} vocabulary; got {}, expected 0 to {}", name(), token,
          vocab_size() - 1);
}

std::unique_ptr<const Tokenizer> make_tokenizer(std::string_view name,
                                                std::span<const std::string_view> texts,
                                                const std::string& vocab) {
  if (name == "byte") {
    return std::make_unique<ByteTableTokenizer>(name, all_bytes());
  }
  if (name == "char") {
    std::string vocabulary = distinct_bytes(texts);
    if (vocabulary.empty()) {
      throw ConfigError("tokenizer",
                        "the char tokenizer takes its vocabulary from a text; got none, expected "
                        "at least one character; .bin shards need no tokenizer");
    }
    return std::make_unique<ByteTableTokenizer>(name, std::move(vocabulary));
  }
  if (name == "gpt2") {
    return std::make_unique<BpeTokenizer>(BpeVocabulary::from_folder(vocab));
  }
  throw ConfigError("tokenizer", fmt::format("unknown tokenizer; got '{}', expected 'byte', "
                                             "'char' or 'gpt2'",
                                             name));
}

}  // namespace zerolab::data
