#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

using Tokens = std::vector<int32_t>;

TokenView counting(int64_t size) {
  std::vector<uint16_t> tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), uint16_t{0});
  return TokenView(TokenDataset::from_tokens(std::move(tokens)), 0, size);
}

struct Batch {
  int64_t result = 0;  // what load returned
  Tokens inputs;
  Tokens targets;
};

/// Calls `load` with buffers that hold a value which no token has.
template <typename AnyLoader, typename... Position>
Batch load(const AnyLoader& loader, BatchShape shape, Position... position) {
  const auto numel = static_cast<size_t>(shape.numel());
  Batch batch{0, Tokens(numel, -1), Tokens(numel, -1)};
  batch.result = loader.load(position..., batch.inputs, batch.targets);
  return batch;
}

/// The windows that a batch's rows are, where token i of the view is i.
std::vector<int64_t> windows_in(const Tokens& inputs, int64_t block_size) {
  std::vector<int64_t> windows;
  for (size_t i = 0; i < inputs.size(); i += static_cast<size_t>(block_size)) {
    EXPECT_EQ(inputs[i] % block_size, 0);
    windows.push_back(inputs[i] / block_size);
  }
  return windows;
}

TEST(LoaderTest, FollowsTheFormulaOfTheGlobalSample) {
  const Loader::Options options = {.shape = {.batch_size = 2, .block_size = 3},
                                   .group = {.world_size = 4, .rank = 1},
                                   .gradient_accumulation_steps = 3,
                                   .order = Order::kSequential};
  const Loader loader(counting(1000), options);
  // ((2*3 + 1)*4 + 1)*2 = 58: windows 58 and 59, which start at tokens 174 and 177.
  const Batch batch = load(loader, options.shape, 2, 1);
  EXPECT_EQ(batch.result, 58);
  EXPECT_EQ(batch.inputs, (Tokens{174, 175, 176, 177, 178, 179}));
  EXPECT_EQ(batch.targets, (Tokens{175, 176, 177, 178, 179, 180}));
}

TEST(LoaderTest, StartsAgainAfterTheLastWholeWindow) {
  // (12 - 1) / 3 = 3 windows: tokens 9 to 11 are no window, since 12 is not there to be a target.
  const Loader::Options options = {.shape = {.batch_size = 2, .block_size = 3},
                                   .order = Order::kSequential};
  const Loader loader(counting(12), options);
  EXPECT_EQ(loader.num_windows(), 3);
  const Batch batch = load(loader, options.shape, 1, 0);
  EXPECT_EQ(batch.result, 2);
  EXPECT_EQ(batch.inputs, (Tokens{6, 7, 8, 0, 1, 2}));
  EXPECT_EQ(batch.targets, (Tokens{7, 8, 9, 1, 2, 3}));
}

TEST(LoaderTest, OneTokenMoreThanABlockIsEnough) {
  const Loader::Options options = {.shape = {.batch_size = 1, .block_size = 4}};
  const Loader loader(counting(5), options);
  EXPECT_EQ(loader.num_windows(), 1);
  EXPECT_EQ(load(loader, options.shape, 99, 0).targets, (Tokens{1, 2, 3, 4}));
}

using Group = std::tuple<Order, int64_t, int64_t, int64_t>;  // order, N, k, B

class LoaderGroups : public ::testing::TestWithParam<Group> {};

TEST_P(LoaderGroups, SeesEveryWindowOnceAnEpoch) {
  constexpr int64_t kBlock = 4;
  constexpr int64_t kWindows = 101;
  const auto [order, world_size, accumulation_steps, batch_size] = GetParam();
  const TokenView tokens = counting(kWindows * kBlock + 1);
  std::vector<std::vector<int64_t>> epochs(3);
  int64_t expected_sample = 0;
  for (int64_t step = 0; expected_sample < 3 * kWindows; ++step) {
    for (int64_t micro = 0; micro < accumulation_steps; ++micro) {
      for (int64_t rank = 0; rank < world_size; ++rank) {
        const Loader::Options options = {.shape = {.batch_size = batch_size, .block_size = kBlock},
                                         .group = {.world_size = world_size, .rank = rank},
                                         .gradient_accumulation_steps = accumulation_steps,
                                         .order = order,
                                         .seed = 11};
        const Batch batch = load(Loader(tokens, options), options.shape, step, micro);
        ASSERT_EQ(batch.result, expected_sample);
        for (const int64_t window : windows_in(batch.inputs, kBlock)) {
          const int64_t epoch = expected_sample++ / kWindows;
          if (epoch < 3) {
            epochs[static_cast<size_t>(epoch)].push_back(window);
          }
        }
      }
    }
  }
  for (auto& windows : epochs) {
    EXPECT_EQ(std::is_sorted(windows.begin(), windows.end()), order == Order::kSequential);
    std::sort(windows.begin(), windows.end());
    std::vector<int64_t> all(kWindows);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(windows, all);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LoaderGroups,
                         ::testing::Combine(::testing::Values(Order::kSequential, Order::kShuffled),
                                            ::testing::Values(1, 2, 3, 7), ::testing::Values(1, 3),
                                            ::testing::Values(1, 5)));

TEST(LoaderTest, TheGlobalBatchDoesNotDependOnTheNumberOfRanks) {
  constexpr int64_t kBlock = 4;
  constexpr int64_t kGlobalBatch = 8;
  const TokenView tokens = counting(50 * kBlock + 1);
  std::set<std::vector<int64_t>> distinct_steps;
  for (int64_t step = 0; step < 20; ++step) {
    std::set<std::vector<int64_t>> over_world_sizes;
    for (const int64_t world_size : {1, 2, 4}) {
      std::vector<int64_t> windows;
      for (int64_t rank = 0; rank < world_size; ++rank) {
        const Loader::Options options = {
            .shape = {.batch_size = kGlobalBatch / world_size, .block_size = kBlock},
            .group = {.world_size = world_size, .rank = rank},
            .seed = 5};
        const Loader loader(tokens, options);
        const auto rows = windows_in(load(loader, options.shape, step, 0).inputs, kBlock);
        windows.insert(windows.end(), rows.begin(), rows.end());
      }
      over_world_sizes.insert(windows);
    }
    EXPECT_EQ(over_world_sizes.size(), 1U) << "step " << step;
    distinct_steps.insert(*over_world_sizes.begin());
  }
  EXPECT_EQ(distinct_steps.size(), 20U);
}

TEST(LoaderTest, ShufflesEveryEpochAnew) {
  const Loader::Options options = {.shape = {.batch_size = 100, .block_size = 2}, .seed = 1};
  const Loader loader(counting(201), options);
  EXPECT_NE(load(loader, options.shape, 0, 0).inputs, load(loader, options.shape, 1, 0).inputs);
  EXPECT_EQ(load(loader, options.shape, 1, 0).inputs, load(loader, options.shape, 1, 0).inputs);
}

TEST(LoaderTest, RefusesABlockLongerThanTheCorpus) {
  const Loader::Options options = {.shape = {.batch_size = 1, .block_size = 256}};
  const std::string message = message_of<ConfigError>([&] { Loader(counting(256), options); });
  EXPECT_NE(message.find("the training tokens; got block_size 256 and 256 tokens"),
            std::string::npos)
      << message;
  EXPECT_THROW(Loader(counting(0), options), ConfigError);
  const std::string evaluation =
      message_of<ConfigError>([&] { EvaluationLoader(counting(10), options.shape, {}); });
  EXPECT_NE(evaluation.find("the validation tokens; got block_size 256 and 10 tokens"),
            std::string::npos)
      << evaluation;
}

TEST(LoaderTest, RefusesSizesThatMakeNoBatch) {
  const TokenView tokens = counting(100);
  const Loader::Options good = {.shape = {.batch_size = 2, .block_size = 3},
                                .group = {.world_size = 2, .rank = 1}};
  EXPECT_NO_THROW(Loader(tokens, good));
  const auto refused = [&](auto change) {
    Loader::Options options = good;
    change(options);
    EXPECT_THROW(Loader(tokens, options), ConfigError);
  };
  refused([](auto& o) { o.shape.batch_size = 0; });
  refused([](auto& o) { o.shape.block_size = 0; });
  refused([](auto& o) { o.shape.block_size = -3; });
  refused([](auto& o) { o.group.world_size = 0; });
  refused([](auto& o) { o.group.rank = 2; });
  refused([](auto& o) { o.group.rank = -1; });
  refused([](auto& o) { o.gradient_accumulation_steps = 0; });
}

TEST(LoaderTest, RefusesAMicroBatchThatIsNotThereAndBuffersThatDoNotFit) {
  const Loader::Options options = {.shape = {.batch_size = 2, .block_size = 3},
                                   .gradient_accumulation_steps = 2};
  const Loader loader(counting(100), options);
  EXPECT_THROW(load(loader, options.shape, -1, 0), Error);
  EXPECT_THROW(load(loader, options.shape, 0, 2), Error);
  EXPECT_THROW(load(loader, options.shape, 0, -1), Error);
  Tokens right(6);
  Tokens wrong(5);
  EXPECT_THROW(loader.load(0, 0, right, wrong), Error);
  EXPECT_THROW(loader.load(0, 0, wrong, right), Error);
}

TEST(LoaderTest, ReadsTheReferenceRunsTokensWithoutWrapping) {
  const std::string path = SOURCE_FOLDER "/tests/spine/reference/data/gpt-tiny/tokens.bin";
  const auto dataset = TokenDataset::from_shards(Corpus(std::vector{path}));
  EXPECT_NO_THROW(dataset->require_tokens_below(257));
  const Loader::Options options = {.shape = {.batch_size = 2, .block_size = 32},
                                   .group = {.world_size = 4, .rank = 3},
                                   .gradient_accumulation_steps = 2,
                                   .order = Order::kSequential};
  const Loader loader(split(dataset, 0).train, options);
  EXPECT_EQ(loader.num_windows(), 12 * 2 * 4 * 2);  // exactly its twelve steps
  const Batch last = load(loader, options.shape, 11, 1);
  EXPECT_EQ(last.result, 190);
  Tokens expected(64);
  dataset->read(190 * 32 + 1, expected);
  EXPECT_EQ(last.targets, expected);
}

TEST(OrderTest, IsParsedByName) {
  EXPECT_EQ(parse_order("sequential"), Order::kSequential);
  EXPECT_EQ(parse_order("shuffled"), Order::kShuffled);
  EXPECT_THROW(parse_order("random"), ConfigError);
}

TEST(EvaluationLoaderTest, MarksTheRowsThatDoNotCount) {
  // Five windows of two tokens for two ranks of two rows: rank 1's last batch has none of them.
  const BatchShape shape = {.batch_size = 2, .block_size = 2};
  const EvaluationLoader first(counting(11), shape, {.world_size = 2, .rank = 0});
  const EvaluationLoader second(counting(11), shape, {.world_size = 2, .rank = 1});
  EXPECT_EQ(first.num_batches(), 2);
  EXPECT_EQ(second.num_batches(), 2);
  EXPECT_EQ(first.num_rows(), 5);
  EXPECT_EQ(load(second, shape, 0).inputs, (Tokens{4, 5, 6, 7}));
  const Batch half = load(first, shape, 1);
  EXPECT_EQ(half.result, 1);
  EXPECT_EQ(half.inputs, (Tokens{8, 9, 0, 0}));
  EXPECT_EQ(half.targets, (Tokens{9, 10, 0, 0}));
  const Batch none = load(second, shape, 1);
  EXPECT_EQ(none.result, 0);
  EXPECT_EQ(none.inputs, Tokens(4, 0));
  EXPECT_THROW(load(first, shape, 2), Error);
  EXPECT_THROW(load(first, shape, -1), Error);
}

class EvaluationGroups : public ::testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {};

TEST_P(EvaluationGroups, DealEveryWindowOnceWithEqualBatchCounts) {
  constexpr int64_t kBlock = 3;
  const auto [num_windows, world_size, batch_size] = GetParam();
  const BatchShape shape = {.batch_size = batch_size, .block_size = kBlock};
  const TokenView tokens = counting(num_windows * kBlock + 1);
  std::vector<int64_t> dealt;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    const EvaluationLoader loader(tokens, shape, {.world_size = world_size, .rank = rank});
    const int64_t rows = world_size * batch_size;
    EXPECT_EQ(loader.num_batches(), num_windows / rows + (num_windows % rows != 0 ? 1 : 0));
    EXPECT_EQ(loader.num_rows(), num_windows);
    for (int64_t i = 0; i < loader.num_batches(); ++i) {
      const Batch batch = load(loader, shape, i);
      const auto windows = windows_in(batch.inputs, kBlock);
      dealt.insert(dealt.end(), windows.begin(), windows.begin() + batch.result);
    }
  }
  std::sort(dealt.begin(), dealt.end());
  std::vector<int64_t> all(static_cast<size_t>(num_windows));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(dealt, all);
}

INSTANTIATE_TEST_SUITE_P(Shapes, EvaluationGroups,
                         ::testing::Combine(::testing::Values(1, 2, 8, 10, 101),
                                            ::testing::Values(1, 2, 3, 4, 7),
                                            ::testing::Values(1, 2, 5)));

TEST(EvaluationLoaderTest, IsCappedByTheNumberOfBatches) {
  const BatchShape shape = {.batch_size = 2, .block_size = 2};
  const TokenView tokens = counting(201);
  const DataParallel group = {.world_size = 2, .rank = 0};
  EXPECT_EQ(EvaluationLoader(tokens, shape, group).num_batches(), 25);
  EXPECT_EQ(EvaluationLoader(tokens, shape, group, 3).num_batches(), 3);
  EXPECT_EQ(EvaluationLoader(tokens, shape, group, 3).num_rows(), 12);
  EXPECT_EQ(EvaluationLoader(tokens, shape, group, 99).num_batches(), 25);
  EXPECT_THROW(EvaluationLoader(tokens, shape, group, -1), ConfigError);
}

}  // namespace
}  // namespace zerolab::data
