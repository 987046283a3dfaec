#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/bpe_vocabulary.h"
#include "data/tokenizer.h"

namespace zerolab::data {

/// GPT-2's tokenizer: cuts a text into words (data/gpt2_words.h) and merges the bytes of each. The
/// text "<|endoftext|>" is encoded as any other; only a writer of tokens adds that one.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeVocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  std::string_view name() const override { return "gpt2"; }
  int64_t vocab_size() const override { return vocabulary_.size(); }
  std::optional<int32_t> end_of_text() const override { return vocabulary_.end_of_text(); }
  std::unique_ptr<TokenStream> stream() const override;
  size_t last_cut(std::string_view text) const override;
  std::string decode(std::span<const int32_t> tokens) const override;

 private:
  BpeVocabulary vocabulary_;
};

/// Merges the bytes of a word, round by round, as encoder.py does: of all pairs of neighbours the
/// one with the lowest rank, wherever it stands, from left to right. O(n log n) for n bytes, and no
/// allocation once its arrays have grown. For one thread.
class BpeMerger {
 public:
  explicit BpeMerger(const BpeVocabulary& vocabulary) : vocabulary_(vocabulary) {}

  /// The tokens of a word that is not empty, valid until the next call.
  std::span<const uint16_t> merge(std::string_view word);

 private:
  /// A token and its neighbours, by the place of its first byte.
  struct Symbol {
    uint32_t previous;
    uint32_t next;
    uint32_t rank;  // of the merge with the next one; kNoMerge too where this one was merged away
    uint16_t token;
    uint16_t merged;  // what it becomes with the next one
  };

  void find_merge(uint32_t at);

  const BpeVocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> candidates_;  // rank << 32 | place, a heap with the least on top
  std::vector<uint32_t> round_;       // places of the lowest rank
  std::vector<uint16_t> tokens_;
};

}  // namespace zerolab::data
