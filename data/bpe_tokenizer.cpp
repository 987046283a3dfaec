#include "data/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "data/gpt2_words.h"
#include "framework/core/error.h"

namespace zerolab::data {

namespace {

/// The tokens of short words seen lately: a word's slot follows from its bytes, and the next word
/// that wants the slot takes it.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 15;
  static constexpr size_t kMaxTokens = 7;

  struct Entry {
    std::array<uint64_t, 2> word = {};  // its bytes, then zeros, then its size; all 0: free
    std::array<uint16_t, kMaxTokens> tokens = {};
    uint16_t num_tokens = 0;
  };

  /// The slot of a word of at most kMaxBytes; it holds this word if `entry.word == word`.
  struct Place {
    std::array<uint64_t, 2> word;
    Entry& entry;
  };
  Place find(std::string_view text) {
    std::array<uint64_t, 2> word = {};
    std::memcpy(word.data(), text.data(), text.size());
    word[1] |= uint64_t{text.size()} << 56;
    const uint64_t hash = (word[0] ^ word[1] * 0x9E3779B97F4A7C15) * 0xD6E8FEB86659FD93;
    return {word, entries_[hash >> (64 - kSlotBits)]};
  }

 private:
  static constexpr int kSlotBits = 14;
  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kSlotBits);  // 512 KiB
};

class BpeStream final : public TokenStream {
 public:
  explicit BpeStream(const BpeVocabulary& vocabulary) : merger_(vocabulary) {}

  void push(std::string_view text, std::vector<int32_t>& tokens) override {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, kMaxWordBytes);
      text.remove_prefix(part.size());
      buffer_ += part;
      // A word begun is looked through again only when the buffer is twice as long: linear time,
      // however small the parts are.
      if (buffer_.size() >= 2 * left_over_) {
        encode_words(kWordLookahead, tokens);
      }
    }
  }

  void finish(std::vector<int32_t>& tokens) override { encode_words(0, tokens); }

 private:
  /// Encodes the words that have `lookahead` bytes after them.
  void encode_words(size_t lookahead, std::vector<int32_t>& tokens) {
    size_t begin = 0;
    while (begin < buffer_.size()) {
      const size_t end = word_end(buffer_, begin);
      if (end + lookahead > buffer_.size()) {
        break;
      }
      encode_word(std::string_view(buffer_).substr(begin, end - begin), tokens);
      begin = end;
    }
    buffer_.erase(0, begin);
    left_over_ = buffer_.size();
  }

  void encode_word(std::string_view word, std::vector<int32_t>& tokens) {
    std::span<const uint16_t> encoded;
    if (word.size() > WordCache::kMaxBytes) {
      encoded = merger_.merge(word);
    } else {
      auto [key, entry] = cache_.find(word);
      if (entry.word == key) {
        encoded = std::span(entry.tokens).first(entry.num_tokens);
      } else {
        encoded = merger_.merge(word);
        if (encoded.size() <= WordCache::kMaxTokens) {
          entry.word = key;
          entry.num_tokens = static_cast<uint16_t>(encoded.size());
          std::copy(encoded.begin(), encoded.end(), entry.tokens.begin());
        }
      }
    }
    tokens.insert(tokens.end(), encoded.begin(), encoded.end());
  }

  BpeMerger merger_;
  WordCache cache_;
  std::string buffer_;    // text whose words are not all certain
  size_t left_over_ = 0;  // of the buffer, when it was last looked through
};

}  // namespace

std::unique_ptr<TokenStream> BpeTokenizer::stream() const {
  return std::make_unique<BpeStream>(vocabulary_);
}

size_t BpeTokenizer::last_cut(std::string_view text) const { return last_word_cut(text); }

std::string BpeTokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    require_token(token);
    text += vocabulary_.bytes_of(static_cast<uint16_t>(token));
  }
  return text;
}

std::span<const uint16_t> BpeMerger::merge(std::string_view word) {
  const auto size = static_cast<uint32_t>(word.size());
  symbols_.resize(size);
  for (uint32_t at = 0; at < size; ++at) {
    symbols_[at] = {.previous = at - 1,
                    .next = at + 1,
                    .rank = BpeVocabulary::kNoMerge,
                    .token = vocabulary_.token_of_byte(static_cast<uint8_t>(word[at])),
                    .merged = 0};
  }
  candidates_.clear();
  for (uint32_t at = 0; at < size; ++at) {
    find_merge(at);
  }
  while (!candidates_.empty()) {
    // All places of this rank are merged before the merges that follow from them are looked at.
    const auto rank = static_cast<uint32_t>(candidates_.front() >> 32);
    round_.clear();
    while (!candidates_.empty() && candidates_.front() >> 32 == rank) {
      round_.push_back(static_cast<uint32_t>(candidates_.front()));
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      candidates_.pop_back();
    }
    for (const uint32_t at : round_) {
      Symbol& symbol = symbols_[at];
      if (symbol.rank != rank) {
        continue;  // a neighbour was merged since
      }
      symbol.token = symbol.merged;
      symbols_[symbol.next].rank = BpeVocabulary::kNoMerge;
      symbol.next = symbols_[symbol.next].next;
      if (symbol.next < size) {
        symbols_[symbol.next].previous = at;
      }
      find_merge(at);
      if (at > 0) {
        find_merge(symbol.previous);
      }
    }
  }
  tokens_.clear();
  for (uint32_t at = 0; at < size; at = symbols_[at].next) {
    tokens_.push_back(symbols_[at].token);
  }
  return tokens_;
}

void BpeMerger::find_merge(uint32_t at) {
  Symbol& symbol = symbols_[at];
  symbol.rank = BpeVocabulary::kNoMerge;
  if (symbol.next < symbols_.size()) {
    const BpeVocabulary::Merge found =
        vocabulary_.merge_of(symbol.token, symbols_[symbol.next].token);
    symbol.rank = found.rank;
    symbol.merged = found.token;
    if (found.rank != BpeVocabulary::kNoMerge) {
      candidates_.push_back(uint64_t{found.rank} << 32 | at);
      std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    }
  }
}

}  // namespace zerolab::data
