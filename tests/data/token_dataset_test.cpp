#include "data/token_dataset.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <tuple>

#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

using Tokens = std::vector<int32_t>;
using Paths = std::vector<std::string>;

template <typename Source>
Tokens read(const Source& source, int64_t begin, int64_t count) {
  Tokens out(static_cast<size_t>(count));
  source.read(begin, out);
  return out;
}

std::shared_ptr<const TokenDataset> counting(int64_t size) {
  std::vector<uint16_t> tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return TokenDataset::from_tokens(std::move(tokens));
}

TEST(TokenDatasetTest, ConcatenatesTextsInOrder) {
  const TempDir dir;
  const Corpus corpus(Paths{dir.write("z.txt", "ab"), dir.write("a.txt", "cd")});
  const auto tokenizer = make_tokenizer("char", corpus.texts());
  const auto dataset = TokenDataset::from_text(corpus, *tokenizer);
  EXPECT_EQ(read(*dataset, 0, dataset->size()), (Tokens{0, 1, 2, 3}));
}

TEST(TokenDatasetTest, ReadsAcrossShards) {
  const TempDir dir;
  const Paths paths = {dir.write_shard("a.bin", {0, 1, 2}), dir.write_shard("b.bin", {}),
                       dir.write_shard("c.bin", {3}), dir.write_shard("d.bin", {4, 65535})};
  const auto dataset = TokenDataset::from_shards(Corpus(paths));
  const Tokens all = {0, 1, 2, 3, 4, 65535};
  ASSERT_EQ(dataset->size(), 6);
  for (int64_t begin = 0; begin <= 6; ++begin) {
    for (int64_t count = 0; begin + count <= 6; ++count) {
      EXPECT_EQ(read(*dataset, begin, count),
                Tokens(all.begin() + begin, all.begin() + begin + count));
    }
  }
}

TEST(TokenDatasetTest, RefusesToReadOutside) {
  const auto dataset = counting(6);
  const int64_t huge = std::numeric_limits<int64_t>::max();
  for (const auto& [begin, count] : {std::tuple{-1L, 1L}, {6L, 1L}, {0L, 7L}, {huge, 1L}}) {
    EXPECT_THROW(read(*dataset, begin, count), Error);
  }
  EXPECT_THROW(TokenView(dataset, 3, 4), Error);
  EXPECT_THROW(TokenView(dataset, -1, 2), Error);
  EXPECT_THROW(TokenView(dataset, 7, 0), Error);
  EXPECT_THROW(TokenView(dataset, 0, -1), Error);
}

TEST(TokenDatasetTest, RefusesACorpusOfTheOtherKind) {
  const TempDir dir;
  const auto tokenizer = make_tokenizer("byte", {});
  EXPECT_THROW(TokenDataset::from_text(Corpus(Paths{dir.write_shard("a.bin", {1})}), *tokenizer),
               Error);
  EXPECT_THROW(TokenDataset::from_shards(Corpus(Paths{dir.write("a.txt", "a")})), Error);
}

TEST(TokenDatasetTest, FindsATokenOutsideTheModelsVocabulary) {
  const TempDir dir;
  const Paths paths = {dir.write_shard("a.bin", {9, 8}), dir.write_shard("b.bin", {7, 300, 400})};
  const auto dataset = TokenDataset::from_shards(Corpus(paths));
  EXPECT_NO_THROW(dataset->require_tokens_below(401));
  EXPECT_NO_THROW(dataset->require_tokens_below(65536));
  const std::string message = message_of<ConfigError>([&] { dataset->require_tokens_below(300); });
  EXPECT_NE(message.find("got 300 at position 1 of '" + paths[1] + "', expected less than 300"),
            std::string::npos)
      << message;
}

TEST(TokenViewTest, IsARangeAndKeepsTheDatasetAlive) {
  const TempDir dir;
  const Paths paths = {dir.write_shard("a.bin", {0, 1, 2, 3, 4, 5})};
  const TokenView view(TokenDataset::from_shards(Corpus(paths)), 2, 3);
  EXPECT_EQ(view.size(), 3);
  EXPECT_EQ(read(view, 0, 3), (Tokens{2, 3, 4}));
  EXPECT_EQ(read(view, 2, 1), Tokens{4});
  EXPECT_THROW(read(view, 2, 2), Error);
  EXPECT_THROW(read(view, -1, 1), Error);
}

TEST(SplitTest, CutsTheValidationPartOffTheEnd) {
  const auto [train, validation] = split(counting(10), 0.25);
  EXPECT_EQ(read(train, 0, train.size()), (Tokens{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read(validation, 0, validation.size()), (Tokens{7, 8, 9}));
}

TEST(SplitTest, RoundsTheTrainingPartDown) {
  for (const auto& [size, fraction, num_train] : {std::tuple{10, 0.0, 10},
                                                  {10, 0.1, 9},
                                                  {11, 0.1, 9},
                                                  {1, 0.5, 0},
                                                  {0, 0.1, 0},
                                                  {7, 0.999, 0}}) {
    const auto [train, validation] = split(counting(size), fraction);
    EXPECT_EQ(train.size(), num_train);
    EXPECT_EQ(validation.size(), size - num_train);
  }
}

TEST(SplitTest, RefusesAFractionOutOfRange) {
  for (const double fraction : {-0.1, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(split(counting(10), fraction), ConfigError);
  }
}

TEST(TinyShakespeare, HasTheSizesOfNanoGpt) {
  const Corpus corpus(Paths{kTinyShakespeare});
  const auto tokenizer = make_tokenizer("char", corpus.texts());
  EXPECT_EQ(tokenizer->vocab_size(), 65);
  const auto dataset = TokenDataset::from_text(corpus, *tokenizer);
  const auto [train, validation] = split(dataset, 0.1);
  EXPECT_EQ(train.size(), 1003854);
  EXPECT_EQ(validation.size(), 111540);
  EXPECT_EQ(tokenizer->decode(read(train, 0, 14)), "First Citizen:");
  EXPECT_EQ(tokenizer->decode(read(*dataset, 0, dataset->size())), corpus.texts()[0]);
}

}  // namespace
}  // namespace zerolab::data
