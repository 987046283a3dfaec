#include "framework/comm/link.h"

#include <thread>

#include "framework/tensor/backend.h"
#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kReduceScatter,
                                 CollectiveOp::kAllGather, CollectiveOp::kReduce,
                                 CollectiveOp::kBroadcast};

double seconds(Clock::duration time) { return duration<double>(time).count(); }

Collective call_of(CollectiveOp op, int64_t numel) { return {.op = op, .tag = {}, .numel = numel}; }

TEST(LinkTime, IsTheLongerDirectionOverTheBandwidthPlusARoundsLatencyEach) {
  const LocalOptions link = {.bandwidth_gbps = 8, .latency_us = 50};  // 1e9 bytes a second
  const auto time = [&](CollectiveOp op, int64_t sent, int64_t received) {
    return std::chrono::round<microseconds>(
        link_time(link, call_of(op, 1'000'000), 4, sent, received));
  };
  for (const CollectiveOp op : {CollectiveOp::kReduceScatter, CollectiveOp::kAllGather}) {
    EXPECT_EQ(time(op, 3'000'000, 3'000'000), microseconds(3000 + 150));
    EXPECT_EQ(time(op, 2'000'000, 3'000'000), microseconds(3000 + 150));
  }
  EXPECT_EQ(time(CollectiveOp::kAllReduce, 6'000'000, 5'000'000), microseconds(6000 + 300));
  EXPECT_EQ(time(CollectiveOp::kBarrier, 0, 0), microseconds(150));
  // 4e6 bytes of buffer pass every link of a chain, whatever this rank sends.
  for (const CollectiveOp op : {CollectiveOp::kReduce, CollectiveOp::kBroadcast}) {
    EXPECT_EQ(time(op, 0, 4'000'000), microseconds(4000 + 150));
    EXPECT_EQ(time(op, 0, 0), microseconds(4000 + 150));
  }
}

TEST(LinkTime, IsNothingWithoutAModelOrPeers) {
  for (const CollectiveOp op : kOps) {
    EXPECT_EQ(link_time({}, call_of(op, 1000), 4, 3000, 3000), Clock::duration::zero());
    EXPECT_EQ(link_time({.bandwidth_gbps = 1, .latency_us = 9}, call_of(op, 1000), 1, 0, 0),
              Clock::duration::zero());
  }
  EXPECT_GT(link_time({.latency_us = 9}, call_of(CollectiveOp::kReduce, 1000), 2, 0, 0),
            Clock::duration::zero());
  EXPECT_EQ(clock_time(1e300), clock_time(1e8));
}

/// Every verb on one stream; `numel` elements a slice.
void call_every_verb(Communicator& communicator, Stream& stream, const Tensor& buffer) {
  communicator.all_reduce(stream, buffer, 1.0, kGradientTag);
  communicator.reduce_scatter(stream, buffer, 1.0, kGradientTag);
  communicator.all_gather(stream, buffer, kGradientTag, {.begin = 1});
  communicator.reduce(stream, buffer, 1, 1.0, kGradientTag);
  communicator.broadcast(stream, buffer, 1, kGradientTag);
}

TEST(Link, LetsEveryVerbLastAsLongAsItsFormulaSays) {
  constexpr int kRanks = 3;
  const LocalOptions link = {.timeout_s = 60, .bandwidth_gbps = 0.01, .latency_us = 1000};
  for (const int64_t numel : {5, 3 * 2000}) {  // moved by the last rank, and by each
    on_ranks(kRanks,
             [&](RankContext& context, Communicator& communicator) {
               const Tensor buffer = tensor_of_rank(context, numel * kRanks);
               call_every_verb(communicator, context.communication(), buffer);
               context.communication().synchronize();
               for (const CollectiveOp op : kOps) {
                 const auto entry = communicator.ledger().entries().at({op, Purpose::kGradient});
                 const double modelled =
                     seconds(link_time(link, call_of(op, numel * kRanks), kRanks, entry.bytes_sent,
                                       entry.bytes_received));
                 EXPECT_GE(modelled, 0.002) << name_of(op);
                 EXPECT_GE(entry.transfer_ms, modelled * 1e3 - 1e-3) << name_of(op);
               }
               const Clock::time_point begin = Clock::now();
               communicator.barrier();
               EXPECT_GE(Clock::now() - begin, milliseconds(2));
             },
             {.group = link});
  }
}

TEST(Link, LeavesTheHostFreeWhileTheCommunicationStreamSleeps) {
  constexpr int64_t kNumel = 40'000;
  on_ranks(2,
           [](RankContext& context, Communicator& communicator) {
             const Tensor buffer = tensor_of_rank(context, kNumel);
             const Tensor other = tensor_of_rank(context, 16);
             const Clock::time_point begin = Clock::now();
             communicator.all_reduce(context.communication(), buffer, 2.0, kGradientTag);
             const Event done = context.communication().record();
             int computed = 0;
             while (!done.is_complete()) {
               context.backend().scale(context.compute(), other, -1.0, other, false);
               ++computed;
             }
             EXPECT_GE(Clock::now() - begin, milliseconds(400));
             EXPECT_GE(computed, 2);
             EXPECT_EQ(other.to_host<float>()[3],
                       (computed % 2 == 0 ? 1 : -1) * value(context.rank(), 3));
             EXPECT_EQ(buffer.to_host<float>()[17], mean(2, 17, 2.0));
           },
           {.group = {.timeout_s = 60, .bandwidth_gbps = kNumel * 4 * 8 / 0.4e9}});
}

TEST(Jitter, IsTheSameInEveryRunAndDiffersElsewhere) {
  const LocalOptions link = {.jitter_us = 1000, .jitter_seed = 5};
  const auto time = [&](int rank, int64_t index) { return jitter_time(link, rank, index); };
  EXPECT_EQ(time(1, 7), time(1, 7));
  EXPECT_NE(time(1, 7), time(2, 7));
  EXPECT_NE(time(1, 7), time(1, 8));
  EXPECT_NE(time(1, 7), jitter_time({.jitter_us = 1000, .jitter_seed = 6}, 1, 7));
  Clock::duration longest = Clock::duration::zero();
  for (int64_t index = 0; index < 200; ++index) {
    EXPECT_GE(time(0, index), Clock::duration::zero());
    EXPECT_LE(time(0, index), microseconds(1000));
    longest = std::max(longest, time(0, index));
  }
  EXPECT_GT(longest, microseconds(900));
}

TEST(Jitter, DelaysEachArrival) {
  const LocalOptions link = {.timeout_s = 60, .jitter_us = 20'000, .jitter_seed = 1};
  on_ranks(3,
           [&](RankContext& context, Communicator& communicator) {
             for (int64_t index = 0; index < 5; ++index) {
               const Clock::time_point begin = Clock::now();
               communicator.barrier();
               EXPECT_GE(Clock::now() - begin, jitter_time(link, context.rank(), index));
             }
           },
           {.group = link});
}

/// The bits of a buffer that every verb has been at, on every rank.
std::vector<std::vector<float>> results(const LocalOptions& group, StreamMode streams) {
  std::vector<std::vector<float>> by_rank(4);
  on_ranks(4,
           [&](RankContext& context, Communicator& communicator) {
             std::vector<float> mine(4 * 1500);
             for (size_t i = 0; i < mine.size(); ++i) {
               mine[i] = 1.0F / static_cast<float>(1 + context.rank() * 7919 + i * 31);
             }
             const Tensor buffer = tensor_of(context, mine);
             context.communication().wait(context.compute().record());
             for (int round = 0; round < 3; ++round) {
               call_every_verb(communicator, context.communication(), buffer);
             }
             context.compute().wait(context.communication().record());
             by_rank[context.rank()] = buffer.to_host<float>();
           },
           {.streams = streams, .group = group});
  return by_rank;
}

TEST(Jitter, ChangesNoBit) {
  const auto expected = results({}, StreamMode::kImmediate);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const LocalOptions group = {.latency_us = 20, .jitter_us = 500, .jitter_seed = seed};
    for (const StreamMode streams : {StreamMode::kImmediate, StreamMode::kLazy}) {
      EXPECT_EQ(results(group, streams), expected);
    }
  }
}

}  // namespace
}  // namespace zerolab
