#include "data/token_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "framework/core/error.h"

namespace zerolab::data {

namespace {

constexpr int64_t kMaxVocabSize = int64_t{std::numeric_limits<uint16_t>::max()} + 1;

/// Compares without `begin + count`, which a hostile caller could make overflow.
bool is_within(int64_t begin, int64_t count, int64_t size) {
  return begin >= 0 && count >= 0 && begin <= size && count <= size - begin;
}

void require_range(int64_t begin, int64_t count, int64_t size) {
  require(is_within(begin, count, size), "data",
          "read outside the tokens; got {} tokens from {}, expected a range within {}", count,
          begin, size);
}

}  // namespace

std::shared_ptr<const TokenDataset> TokenDataset::from_tokens(std::vector<uint16_t> tokens) {
  std::shared_ptr<TokenDataset> dataset(new TokenDataset);
  dataset->held_ = std::move(tokens);
  dataset->append(dataset->held_, "memory");
  return dataset;
}

std::shared_ptr<const TokenDataset> TokenDataset::from_text(const Corpus& corpus,
                                                            const Tokenizer& tokenizer) {
  require(corpus.kind() == CorpusKind::kText, "data",
          "a tokenizer needs text; got .bin shards, expected text files");
  require(tokenizer.vocab_size() <= kMaxVocabSize, "data",
          "the {} vocabulary does not fit uint16 tokens; got {} tokens, expected at most {}",
          tokenizer.name(), tokenizer.vocab_size(), kMaxVocabSize);
  constexpr size_t kPart = size_t{1} << 20;
  std::vector<uint16_t> tokens;
  std::vector<int32_t> encoded;  // of a part, so that no text's tokens are there twice
  const std::unique_ptr<TokenStream> stream = tokenizer.stream();
  const auto take_encoded = [&] {
    tokens.insert(tokens.end(), encoded.begin(), encoded.end());
    encoded.clear();
  };
  for (std::string_view text : corpus.texts()) {
    for (; !text.empty(); text.remove_prefix(std::min(kPart, text.size()))) {
      stream->push(text.substr(0, kPart), encoded);
      take_encoded();
    }
    stream->finish(encoded);
    take_encoded();
  }
  return from_tokens(std::move(tokens));
}

std::shared_ptr<const TokenDataset> TokenDataset::from_shards(Corpus corpus) {
  require(corpus.kind() == CorpusKind::kTokens, "data",
          "a text must be tokenised first; got text files, expected .bin shards");
  std::shared_ptr<TokenDataset> dataset(new TokenDataset);
  const std::vector<std::span<const uint16_t>>& shards = corpus.shards();
  for (size_t i = 0; i < shards.size(); ++i) {
    dataset->append(shards[i], corpus.paths()[i]);
  }
  dataset->mapped_ = std::move(corpus);
  return dataset;
}

void TokenDataset::append(std::span<const uint16_t> tokens, std::string source) {
  if (!tokens.empty()) {
    segments_.push_back({tokens, size_, std::move(source)});
    size_ += static_cast<int64_t>(tokens.size());
  }
}

void TokenDataset::read(int64_t begin, std::span<int32_t> out) const {
  require_range(begin, static_cast<int64_t>(out.size()), size_);
  // The last segment that starts at or before `begin`; a window may run on into the next ones.
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), begin,
                                  [](int64_t at, const Segment& s) { return at < s.begin; });
  while (!out.empty()) {
    const Segment& from = *(segment - 1);
    const auto rest = from.tokens.subspan(static_cast<size_t>(begin - from.begin));
    const size_t count = std::min(rest.size(), out.size());
    std::copy_n(rest.begin(), count, out.begin());
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
    ++segment;
  }
}

void TokenDataset::require_tokens_below(int64_t vocab_size) const {
  for (const Segment& segment : segments_) {
    // One pass without a branch a token finds the rare fault; only then is its position looked for.
    uint16_t largest = 0;
    for (const uint16_t token : segment.tokens) {
      largest = std::max(largest, token);
    }
    if (largest < vocab_size) {
      continue;
    }
    const auto first = std::find_if(segment.tokens.begin(), segment.tokens.end(),
                                    [&](uint16_t token) { return token >= vocab_size; });
    throw ConfigError(
        "data", fmt::format("a token outside the model's vocabulary; got {} at position {} of "
                            "'{}', expected less than {}; raise model.vocab_size",
                            *first, first - segment.tokens.begin(), segment.source, vocab_size));
  }
}

TokenView::TokenView(std::shared_ptr<const TokenDataset> dataset, int64_t begin, int64_t size)
    : dataset_(std::move(dataset)), begin_(begin), size_(size) {
  require_range(begin, size, dataset_->size());
}

void TokenView::read(int64_t begin, std::span<int32_t> out) const {
  require_range(begin, static_cast<int64_t>(out.size()), size_);
  dataset_->read(begin_ + begin, out);
}

Split split(const std::shared_ptr<const TokenDataset>& dataset, double val_fraction) {
  if (!(val_fraction >= 0 && val_fraction < 1)) {
    throw ConfigError("data", fmt::format("val_fraction is out of range; got {}, expected at least "
                                          "0 and less than 1",
                                          val_fraction));
  }
  const int64_t size = dataset->size();
  const auto num_train = static_cast<int64_t>(static_cast<double>(size) * (1 - val_fraction));
  return {TokenView(dataset, 0, num_train), TokenView(dataset, num_train, size - num_train)};
}

}  // namespace zerolab::data
