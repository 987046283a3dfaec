#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zerolab::data {

/// A byte-level BPE vocabulary: the bytes of every token, and which pairs of tokens are merged, in
/// which order. Immutable.
class BpeVocabulary {
 public:
  /// What a pair of neighbours becomes, and when: lower ranks first.
  struct Merge {
    uint32_t rank = kNoMerge;
    uint16_t token = 0;
  };
  static constexpr uint32_t kNoMerge = 0xFFFFFFFF;

  /// From the texts of GPT-2's two files. `encoder_json` maps each token to its number; `vocab_bpe`
  /// has a merge a line, first come first merged. In both a byte is written as a printable
  /// character (bytes_to_unicode of encoder.py in openai/gpt-2). Throws `Error` if they are not
  /// such files, contradict each other, lack a byte, or have more than 65,536 tokens.
  BpeVocabulary(std::string_view encoder_json, std::string_view vocab_bpe);

  /// Reads `encoder.json` and `vocab.bpe`; throws `ConfigError` with the path at fault.
  static BpeVocabulary from_folder(const std::string& folder);

  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::string_view bytes_of(uint16_t token) const { return tokens_[token]; }
  uint16_t token_of_byte(uint8_t byte) const { return token_of_byte_[byte]; }
  /// The number of `<|endoftext|>`, where the vocabulary has it.
  std::optional<int32_t> end_of_text() const { return end_of_text_; }

  Merge merge_of(uint16_t left, uint16_t right) const {
    const uint32_t pair = pair_of(left, right);
    for (size_t slot = slot_of(pair);; slot = (slot + 1) & (pairs_.size() - 1)) {
      const Pair& found = pairs_[slot];
      if (found.pair == pair || found.merge.rank == kNoMerge) {
        return found.merge;
      }
    }
  }

 private:
  /// A slot of an open-addressed table, less than half full; free where the rank is kNoMerge.
  struct Pair {
    uint32_t pair = 0;
    Merge merge;
  };

  static uint32_t pair_of(uint16_t left, uint16_t right) { return uint32_t{left} << 16 | right; }
  size_t slot_of(uint32_t pair) const { return pair * 0x9E3779B97F4A7C15 >> shift_; }
  void read_tokens(std::string_view encoder_json);
  void read_merges(std::string_view vocab_bpe);

  std::vector<std::string> tokens_;
  std::array<uint16_t, 256> token_of_byte_ = {};
  std::vector<Pair> pairs_;  // their number is a power of two, 2^(64 - shift_)
  int shift_ = 63;
  std::optional<int32_t> end_of_text_;
};

}  // namespace zerolab::data
