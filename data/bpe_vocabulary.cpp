#include "data/bpe_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "data/mapped_file.h"
#include "data/utf8.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace {

constexpr std::string_view kComponent = "tokenizer";
constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr size_t kMaxTokens = size_t{std::numeric_limits<uint16_t>::max()} + 1;
constexpr int kNumBytes = 256;
constexpr int16_t kNoByte = -1;

/// Which byte a character of the files stands for: printable Latin-1 for itself, U+0100 and up for
/// the others in order.
std::array<int16_t, 2 * kNumBytes> make_byte_of_char() {
  std::array<int16_t, 2 * kNumBytes> byte_of_char;
  byte_of_char.fill(kNoByte);
  int next = kNumBytes;
  for (int byte = 0; byte < kNumBytes; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    byte_of_char[printable ? byte : next++] = static_cast<int16_t>(byte);
  }
  return byte_of_char;
}

/// The bytes that a token of the files stands for.
std::string bytes_of_symbol(std::string_view symbol) {
  static const auto byte_of_char = make_byte_of_char();
  std::string bytes;
  for (size_t at = 0; at < symbol.size();) {
    const Char c = char_at(symbol, at);
    const bool known = c.code_point < byte_of_char.size() && byte_of_char[c.code_point] != kNoByte;
    require(known, kComponent, "'{}' has a character that stands for no byte, at offset {}", symbol,
            at);
    bytes.push_back(static_cast<char>(byte_of_char[c.code_point]));
    at += c.bytes;
  }
  return bytes;
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

BpeVocabulary::BpeVocabulary(std::string_view encoder_json, std::string_view vocab_bpe) {
  read_tokens(encoder_json);
  read_merges(vocab_bpe);
}

BpeVocabulary BpeVocabulary::from_folder(const std::string& folder) {
  if (folder.empty()) {
    throw ConfigError(kComponent,
                      "the gpt2 tokenizer needs its vocabulary; got no folder, expected one with "
                      "encoder.json and vocab.bpe; set data.vocab (prepare: --vocab)");
  }
  try {
    const MappedFile encoder(std::filesystem::path(folder) / "encoder.json");
    const MappedFile merges(std::filesystem::path(folder) / "vocab.bpe");
    return BpeVocabulary(text_of(encoder), text_of(merges));
  } catch (const Error& error) {
    throw ConfigError(kComponent,
                      fmt::format("no vocabulary in '{}', expected GPT-2's encoder.json and "
                                  "vocab.bpe: {}",
                                  folder, error.what()));
  }
}

void BpeVocabulary::read_tokens(std::string_view encoder_json) {
  const nlohmann::json root = nlohmann::json::parse(encoder_json, nullptr, false);
  require(root.is_object(), kComponent,
          "encoder.json is damaged; expected a JSON object of tokens and their numbers");
  require(root.size() <= kMaxTokens, kComponent,
          "encoder.json has too many tokens; got {}, expected at most {}", root.size(), kMaxTokens);
  std::vector<bool> given(root.size(), false);
  tokens_.resize(root.size());
  for (const auto& [symbol, number] : root.items()) {
    const bool fits = number.is_number_unsigned() && number.get<uint64_t>() < tokens_.size();
    require(fits && !given[number.get<size_t>()], kComponent,
            "encoder.json must number its {} tokens from 0, each number once; got {} for '{}'",
            tokens_.size(), number.dump(), symbol);
    const auto token = number.get<size_t>();
    given[token] = true;
    tokens_[token] = bytes_of_symbol(symbol);
    require(!tokens_[token].empty(), kComponent,
            "encoder.json has an empty token; its number is {}", token);
  }
}

void BpeVocabulary::read_merges(std::string_view vocab_bpe) {
  std::unordered_map<std::string_view, uint16_t> numbers;
  for (size_t token = 0; token < tokens_.size(); ++token) {
    numbers.emplace(tokens_[token], static_cast<uint16_t>(token));
  }
  for (int byte = 0; byte < kNumBytes; ++byte) {
    const auto c = static_cast<char>(byte);
    const auto found = numbers.find({&c, 1});
    require(found != numbers.end(), kComponent,
            "encoder.json lacks a token for byte 0x{:02x}; expected all 256", byte);
    token_of_byte_[byte] = found->second;
  }

  if (vocab_bpe.starts_with("#version")) {
    vocab_bpe.remove_prefix(std::min(vocab_bpe.find('\n'), vocab_bpe.size() - 1) + 1);
  }
  const auto lines = static_cast<size_t>(std::count(vocab_bpe.begin(), vocab_bpe.end(), '\n')) + 1;
  pairs_.resize(std::bit_ceil(2 * lines + 1));
  shift_ = 64 - std::countr_zero(pairs_.size());
  const auto token_of = [&](std::string_view bytes, uint32_t rank) {
    const auto found = numbers.find(bytes);
    require(found != numbers.end(), kComponent,
            "merge {} of vocab.bpe has a token that encoder.json lacks; are the files of two "
            "vocabularies?",
            rank + 1);
    return found->second;
  };
  std::vector<bool> merged(tokens_.size(), false);
  for (uint32_t rank = 0; !vocab_bpe.empty(); ++rank) {
    const std::string_view line = vocab_bpe.substr(0, vocab_bpe.find('\n'));
    vocab_bpe.remove_prefix(std::min(line.size() + 1, vocab_bpe.size()));
    const size_t space = line.find(' ');
    require(space != std::string_view::npos && space > 0 && space + 1 < line.size(), kComponent,
            "merge {} of vocab.bpe is damaged; got '{}', expected two tokens with a space between",
            rank + 1, line);
    const std::string left = bytes_of_symbol(line.substr(0, space));
    const std::string right = bytes_of_symbol(line.substr(space + 1));
    const uint32_t pair = pair_of(token_of(left, rank), token_of(right, rank));
    const uint16_t token = token_of(left + right, rank);
    size_t slot = slot_of(pair);
    for (; pairs_[slot].merge.rank != kNoMerge; slot = (slot + 1) & (pairs_.size() - 1)) {
      require(pairs_[slot].pair != pair, kComponent, "merge {} of vocab.bpe repeats merge {}: '{}'",
              rank + 1, pairs_[slot].merge.rank + 1, line);
    }
    pairs_[slot] = {pair, {rank, token}};
    merged[token] = true;
  }

  const auto found = numbers.find(kEndOfText);
  if (found != numbers.end() && !merged[found->second]) {
    end_of_text_ = found->second;
  }
}

}  // namespace zerolab::data
