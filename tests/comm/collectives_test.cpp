#include <bit>
#include <limits>
#include <tuple>

#include "framework/tensor/backend.h"
#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

/// Number of ranks, elements a slice (or in all, where a verb has no slices), streams.
class Collectives : public testing::TestWithParam<std::tuple<int, int64_t, StreamMode>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  int64_t numel() const { return std::get<1>(GetParam()); }
  RanksOptions options() const { return {.streams = std::get<2>(GetParam()), .lazy_seed = 5}; }
};

TEST_P(Collectives, AllReduceGivesEveryRankTheMean) {
  on_ranks(
      ranks(),
      [&](RankContext& context, Communicator& communicator) {
        const Tensor buffer = tensor_of_rank(context, numel());
        communicator.all_reduce(context.compute(), buffer, ranks(), kGradientTag);
        const std::vector<float> result = buffer.to_host<float>();
        for (int64_t i = 0; i < numel(); ++i) {
          ASSERT_EQ(result[i], mean(ranks(), i, ranks())) << i;
        }
      },
      options());
}

TEST_P(Collectives, ReduceScatterChangesTheOwnSliceOnly) {
  on_ranks(
      ranks(),
      [&](RankContext& context, Communicator& communicator) {
        const Tensor buffer = tensor_of_rank(context, numel() * ranks());
        communicator.reduce_scatter(context.compute(), buffer, 2.0, kGradientTag);
        const std::vector<float> result = buffer.to_host<float>();
        for (int64_t i = 0; i < buffer.numel(); ++i) {
          const bool own = i / numel() == context.rank();
          ASSERT_EQ(result[i], own ? mean(ranks(), i, 2.0) : value(context.rank(), i)) << i;
        }
      },
      options());
}

TEST_P(Collectives, AllGatherTakesEachSliceFromItsRank) {
  on_ranks(
      ranks(),
      [&](RankContext& context, Communicator& communicator) {
        const Tensor buffer = tensor_of_rank(context, numel() * ranks());
        communicator.all_gather(context.compute(), buffer, kParameterTag);
        const std::vector<float> result = buffer.to_host<float>();
        for (int64_t i = 0; i < buffer.numel(); ++i) {
          ASSERT_EQ(result[i], value(static_cast<int>(i / numel()), i)) << i;
        }
      },
      options());
}

TEST_P(Collectives, ReduceChangesTheRootOnly) {
  for (int root = 0; root < ranks(); ++root) {
    on_ranks(
        ranks(),
        [&](RankContext& context, Communicator& communicator) {
          const Tensor buffer = tensor_of_rank(context, numel());
          communicator.reduce(context.compute(), buffer, root, 4.0, kGradientTag);
          const std::vector<float> result = buffer.to_host<float>();
          for (int64_t i = 0; i < numel(); ++i) {
            const bool is_root = context.rank() == root;
            ASSERT_EQ(result[i], is_root ? mean(ranks(), i, 4.0) : value(context.rank(), i)) << i;
          }
        },
        options());
  }
}

TEST_P(Collectives, BroadcastGivesEveryRankTheRootsBuffer) {
  for (int root = 0; root < ranks(); ++root) {
    on_ranks(
        ranks(),
        [&](RankContext& context, Communicator& communicator) {
          const Tensor buffer = tensor_of_rank(context, numel());
          communicator.broadcast(context.compute(), buffer, root, kParameterTag);
          EXPECT_EQ(buffer.to_host<float>(), values(root, numel()));
        },
        options());
  }
}

// 5,003 elements pass the size up to which the last rank to arrive moves everything.
INSTANTIATE_TEST_SUITE_P(
    Sizes, Collectives,
    testing::Combine(testing::Values(1, 2, 3, 4, 7), testing::Values(0, 1, 2, 13, 101, 5003),
                     testing::Values(StreamMode::kImmediate, StreamMode::kLazy)));

TEST(CollectiveSums, AreMadeInRankOrderAndRoundedLikeThat) {
  // In fp32, (1 + 2^24) - 2^24 is 0 and 1 + (2^24 - 2^24) is 1: the order shows.
  const float big = 16777216.0f;
  const std::vector<float> by_rank = {1.0f, big, -big};
  for (const int64_t numel : {3, 9000}) {
    on_ranks(3, [&](RankContext& context, Communicator& communicator) {
      const std::vector<float> mine(numel, by_rank[context.rank()]);
      const Tensor reduced = tensor_of(context, mine);
      const Tensor scattered = tensor_of(context, mine);
      const Tensor rooted = tensor_of(context, mine);
      communicator.all_reduce(context.compute(), reduced, 1.0, kGradientTag);
      communicator.reduce_scatter(context.compute(), scattered, 1.0, kGradientTag);
      communicator.reduce(context.compute(), rooted, 2, 1.0, kGradientTag);
      const std::vector<float> expected(numel, 0.0f);
      EXPECT_EQ(reduced.to_host<float>(), expected);
      const int64_t slice = numel / 3;
      EXPECT_EQ(scattered.range(context.rank() * slice, slice).to_host<float>(),
                std::vector<float>(slice, 0.0f));
      if (context.rank() == 2) {
        EXPECT_EQ(rooted.to_host<float>(), expected);
      }
    });
  }
}

TEST(CollectiveSums, HaveTheSameBitsUnderEveryVerb) {
  constexpr int kRanks = 4;
  constexpr int64_t kNumel = 4 * 2311;
  std::vector<std::vector<float>> inputs(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int64_t i = 0; i < kNumel; ++i) {
      inputs[rank].push_back(1.0f / static_cast<float>(1 + rank * 7919 + i * 31));
    }
  }
  on_ranks(kRanks, [&](RankContext& context, Communicator& communicator) {
    const Tensor reduced = tensor_of(context, inputs[context.rank()]);
    const Tensor scattered = tensor_of(context, inputs[context.rank()]);
    communicator.all_reduce(context.compute(), reduced, 3.0, kGradientTag);
    communicator.reduce_scatter(context.compute(), scattered, 3.0, kGradientTag);
    communicator.all_gather(context.compute(), scattered, kGradientTag);
    const std::vector<float> a = reduced.to_host<float>();
    const std::vector<float> b = scattered.to_host<float>();
    for (int64_t i = 0; i < kNumel; ++i) {
      float sum = inputs[0][i];
      for (int rank = 1; rank < kRanks; ++rank) {
        sum += inputs[rank][i];
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(sum / 3.0f)) << i;
      ASSERT_EQ(std::bit_cast<uint32_t>(b[i]), std::bit_cast<uint32_t>(a[i])) << i;
    }
  });
}

TEST(CollectiveSums, OfIntegersAreRefusedButIntegersAreGathered) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    std::vector<int64_t> mine(2);
    mine[context.rank()] = 10 + context.rank();
    const Tensor buffer = Tensor::from_host(context, Shape{2}, std::span<const int64_t>(mine));
    communicator.all_gather(context.compute(), buffer, kParameterTag);
    EXPECT_EQ(buffer.to_host<int64_t>(), (std::vector<int64_t>{10, 11}));
    EXPECT_EQ(
        error_of([&] { communicator.all_reduce(context.compute(), buffer, 1.0, kGradientTag); }),
        "[comm] all_reduce(gradient, bucket 3) cannot add these elements; got int64, expected "
        "fp32, bf16 or fp16");
  });
}

TEST(CollectiveArguments, AreCheckedBeforeAnyPeerIsInvolved) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    Stream& stream = context.compute();
    const Tensor odd = tensor_of_rank(context, 3);
    EXPECT_EQ(error_of([&] { communicator.all_gather(stream, odd, kParameterTag); }),
              "[comm] all_gather(parameter, bucket 0) needs 2 equal slices, one a rank; got 3 "
              "elements; pad the buffer");
    EXPECT_NE(error_of([&] { communicator.reduce_scatter(stream, odd, 1.0, kGradientTag); }), "");
    EXPECT_NE(error_of([&] { communicator.all_reduce(stream, odd, 0.0, kGradientTag); }), "");
    EXPECT_EQ(error_of([&] { communicator.broadcast(stream, odd, 2, kParameterTag); }),
              "[comm] broadcast(parameter, bucket 0): no such root; got 2, expected 0 to 1");
    EXPECT_NE(error_of([&] { communicator.reduce(stream, odd, -1, 1.0, kGradientTag); }), "");
    EXPECT_EQ(error_of([&] { communicator.all_reduce(stream, Tensor(), 1.0, kGradientTag); }),
              "[comm] all_reduce of an undefined tensor");
    communicator.barrier();
  });
}

TEST(Groups, RefuseWhatCannotBe) {
  EXPECT_NE(error_of([] { LocalGroup(0); }), "");
  EXPECT_NE(error_of([] { LocalGroup(2, {.timeout_s = 0.0}); }), "");
  EXPECT_EQ(error_of([] { LocalGroup(2, {.bandwidth_gbps = -1}); }),
            "[comm] comm.bandwidth_gbps must be finite and not negative; got -1");
  EXPECT_NE(error_of([] { LocalGroup(2, {.latency_us = -1}); }), "");
  EXPECT_NE(error_of([] { LocalGroup(2, {.jitter_us = std::numeric_limits<double>::infinity()}); }),
            "");
  const std::unique_ptr<Backend> backend = make_test_backend();
  const std::unique_ptr<RankGroup> group = make_test_group(2);
  RankContext stranger({.rank = 0, .world_size = 3}, *backend);
  EXPECT_EQ(error_of([&] { group->communicator(stranger); }),
            "[comm] rank 0 of 3 does not belong to a group of 2");
}

}  // namespace
}  // namespace zerolab
