#include "framework/core/cpu_stream.h"
#include "framework/tensor/backend.h"
#include "tests/comm/ranks.h"

namespace zerolab {
namespace {

constexpr int64_t kNumel = 6 * 1024;

/// Two buckets are reduced on the communication stream while the compute stream works on a third
/// buffer; then one is gathered, which the compute stream reads.
void reduce_two_buckets(RankContext& context, Communicator& communicator) {
  const int size = communicator.size();
  Stream& compute = context.compute();
  Stream& communication = context.communication();
  const Tensor first = tensor_of_rank(context, kNumel);
  const Tensor second = tensor_of_rank(context, kNumel);
  const Tensor other = tensor_of_rank(context, kNumel);
  communication.wait(compute.record());
  communicator.reduce_scatter(communication, first, size, {Purpose::kGradient, 0});
  const Event first_done = communication.record();
  communicator.all_reduce(communication, second, size, {Purpose::kGradient, 1});
  context.backend().scale(compute, other, 2.0, other, false);
  communicator.all_gather(communication, first, {Purpose::kParameter, 0});
  const Event all_done = communication.record();
  compute.wait(first_done);
  compute.wait(all_done);
  const std::vector<float> a = first.to_host<float>();
  const std::vector<float> b = second.to_host<float>();
  const std::vector<float> c = other.to_host<float>();
  for (int64_t i = 0; i < kNumel; ++i) {
    ASSERT_EQ(a[i], mean(size, i, size)) << i;
    ASSERT_EQ(b[i], mean(size, i, size)) << i;
    ASSERT_EQ(c[i], 2 * value(context.rank(), i)) << i;
  }
}

TEST(CommunicationStream, OverlapsInAWorkerThread) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, reduce_two_buckets);
  }
}

TEST(CommunicationStream, GivesTheSameUnderEveryLazyOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    on_ranks(3, reduce_two_buckets, {.streams = StreamMode::kLazy, .lazy_seed = seed});
  }
}

/// Verbs on two streams that no event orders: the order of the calls holds, on every rank.
void use_two_streams(RankContext& context, Communicator& communicator) {
  const int size = communicator.size();
  for (int round = 0; round < 10; ++round) {
    const Tensor a = tensor_of_rank(context, kNumel);
    const Tensor b = tensor_of_rank(context, 5);
    context.communication().wait(context.compute().record());
    communicator.all_reduce(context.communication(), a, size, {Purpose::kGradient, round});
    communicator.all_reduce(context.compute(), b, size, {Purpose::kControl, round});
    communicator.broadcast(context.communication(), a, 0, {Purpose::kParameter, round});
    communicator.barrier();
    EXPECT_EQ(b.to_host<float>()[4], mean(size, 4, size));
    EXPECT_EQ(a.to_host<float>()[kNumel - 1], mean(size, kNumel - 1, size));
  }
}

TEST(CommunicationStream, KeepsTheOrderOfCallsAcrossStreams) {
  on_ranks(4, use_two_streams);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    on_ranks(3, use_two_streams, {.streams = StreamMode::kLazy, .lazy_seed = seed});
  }
}

TEST(CommunicationStream, MayHoldVerbsLongerThanTheCommunicatorLives) {
  const std::unique_ptr<RankGroup> group = make_test_group(2);
  run_ranks(*group, [&](int rank) {
    const std::unique_ptr<Backend> backend = make_test_backend();
    RankContext context({.rank = rank, .world_size = 2}, *backend);
    const Tensor buffer = tensor_of_rank(context, kNumel);
    {
      const std::unique_ptr<Communicator> communicator = group->communicator(context);
      communicator->broadcast(context.communication(), buffer, 1, kParameterTag);
    }
    context.communication().synchronize();
    EXPECT_EQ(buffer.to_host<float>(), values(1, kNumel));
  });
}

TEST(CommunicationStream, CarriesHundredsOfTinyBuckets) {
  on_ranks(4, [](RankContext& context, Communicator& communicator) {
    const Tensor flat = tensor_of_rank(context, 400 * 8);
    context.communication().wait(context.compute().record());
    for (int bucket = 0; bucket < 400; ++bucket) {
      const Tensor part = flat.range(bucket * 8, 8);
      communicator.reduce_scatter(context.communication(), part, 4, {Purpose::kGradient, bucket});
      communicator.all_gather(context.communication(), part, {Purpose::kParameter, bucket});
    }
    context.communication().synchronize();
    const std::vector<float> result = flat.to_host<float>();
    for (int64_t i = 0; i < flat.numel(); ++i) {
      ASSERT_EQ(result[i], mean(4, i, 4)) << i;
    }
  });
}

}  // namespace
}  // namespace zerolab
