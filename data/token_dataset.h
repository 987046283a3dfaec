#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/tokenizer.h"

namespace zerolab::data {

/// The tokens of a whole corpus as one sequence: its files in order, nothing put between them. Two
/// bytes a token: shards stay memory-mapped, a text's tokens are held. Immutable, so the threads
/// of all ranks share one without locks.
class TokenDataset {
 public:
  /// Tokens that are already there; also what tests use.
  static std::shared_ptr<const TokenDataset> from_tokens(std::vector<uint16_t> tokens);

  /// Encodes a text corpus, which is not needed afterwards. Throws `Error` if the corpus is of
  /// shards or the vocabulary has more than 65,536 tokens, and what `encode` throws.
  static std::shared_ptr<const TokenDataset> from_text(const Corpus& corpus,
                                                       const Tokenizer& tokenizer);

  /// Takes over the mapped shards; throws `Error` where the corpus is of text.
  static std::shared_ptr<const TokenDataset> from_shards(Corpus corpus);

  TokenDataset(const TokenDataset&) = delete;
  TokenDataset& operator=(const TokenDataset&) = delete;

  int64_t size() const { return size_; }

  /// Copies tokens [begin, begin + out.size()) to `out`; throws `Error` where they end after
  /// size().
  void read(int64_t begin, std::span<int32_t> out) const;

  /// Throws `ConfigError` with the first token that a model of `vocab_size` cannot embed, its
  /// position and its file. Reads the whole dataset.
  void require_tokens_below(int64_t vocab_size) const;

 private:
  struct Segment {
    std::span<const uint16_t> tokens;
    int64_t begin;  // position of its first token in the dataset
    std::string source;
  };

  TokenDataset() = default;
  void append(std::span<const uint16_t> tokens, std::string source);

  std::optional<Corpus> mapped_;   // keeps the shards' mappings alive
  std::vector<uint16_t> held_;     // the tokens of a text
  std::vector<Segment> segments_;  // views into one of the two, none empty
  int64_t size_ = 0;
};

/// A range of a dataset's tokens, and a share in owning it; cheap to copy.
class TokenView {
 public:
  /// Throws `Error` if [begin, begin + size) is not within the dataset.
  TokenView(std::shared_ptr<const TokenDataset> dataset, int64_t begin, int64_t size);

  int64_t size() const { return size_; }

  /// Copies the view's tokens [begin, begin + out.size()) to `out`; throws `Error` outside it.
  void read(int64_t begin, std::span<int32_t> out) const;

 private:
  std::shared_ptr<const TokenDataset> dataset_;
  int64_t begin_;
  int64_t size_;
};

struct Split {
  TokenView train;
  TokenView validation;
};

/// Cuts off the last part for validation: train gets floor(size * (1 - val_fraction)) tokens, as
/// nanoGPT does. Throws `ConfigError` unless 0 <= val_fraction < 1.
Split split(const std::shared_ptr<const TokenDataset>& dataset, double val_fraction);

}  // namespace zerolab::data
