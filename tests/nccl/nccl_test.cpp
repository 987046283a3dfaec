#include "framework/comm/nccl.h"

#include <atomic>
#include <thread>

#include "framework/comm/meta.h"
#include "framework/core/philox.h"
#include "framework/cuda/backend.h"
#include "framework/meta/backend.h"
#include "framework/plain/backend.h"
#include "tests/comm/failing.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

/// What each rank's verb leaves in a buffer whose memory starts at an odd element.
template <typename T>
std::vector<std::vector<std::byte>> results(
    RankGroup& group, Backend& backend, int64_t numel,
    const std::function<void(Communicator&, Stream&, const Tensor&)>& verb) {
  std::vector<std::vector<std::byte>> bytes(group.size());
  run_ranks(group, [&](int rank) {
    RankContext context({.rank = rank, .world_size = group.size(), .poison = true}, backend);
    std::vector<T> values(numel + 1);
    for (int64_t i = 0; i <= numel; ++i) {
      values[i] = static_cast<T>(uniform_from_bits(philox(rank, 0, i)[0]) - 0.25F);
    }
    const Tensor buffer =
        Tensor::from_host(context, Shape{numel + 1}, std::span<const T>(values)).range(1, numel);
    const std::unique_ptr<Communicator> communicator = group.communicator(context);
    const AbortOnUnwind abort_on_unwind(*communicator);
    verb(*communicator, context.compute(), buffer);
    context.compute().synchronize();
    bytes[rank].resize(buffer.bytes());
    backend.copy_to_host(buffer, bytes[rank]);
  });
  return bytes;
}

template <typename T>
void expect_the_local_bits() {
  using Verb = std::function<void(Communicator&, Stream&, const Tensor&)>;
  const Verb verbs[] = {
      [](Communicator& communicator, Stream& stream, const Tensor& buffer) {
        communicator.all_reduce(stream, buffer.range(0, buffer.numel() - 1), 3.0, kGradientTag);
      },
      [](Communicator& communicator, Stream& stream, const Tensor& buffer) {
        communicator.reduce_scatter(stream, buffer, 3.0, kGradientTag);
      },
      [](Communicator& communicator, Stream& stream, const Tensor& buffer) {
        communicator.reduce(stream, buffer, communicator.size() - 1, 3.0, kGradientTag);
      },
      [](Communicator& communicator, Stream& stream, const Tensor& buffer) {
        communicator.all_gather(stream, buffer, kParameterTag, {3, -1});
      }};
  const std::unique_ptr<Backend> plain = make_plain_backend();
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const Verb& verb : verbs) {
      LocalGroup local(ranks);
      const std::unique_ptr<RankGroup> nccl = make_test_group(ranks, {.lazy_seed = 7});
      const std::unique_ptr<Backend> cuda = make_cuda_backend();
      const int64_t numel = 517 * ranks;
      EXPECT_EQ(results<T>(*nccl, *cuda, numel, verb), results<T>(local, *plain, numel, verb))
          << ranks << " ranks, verb " << &verb - verbs;
    }
  }
}

TEST(Nccl, GivesTheBitsOfLocalRanks) {
  expect_the_local_bits<float>();
  expect_the_local_bits<BFloat16>();
  expect_the_local_bits<Float16>();
}

int64_t peak_of_communication(RankContext& context) {
  return context.ledger().snapshot().peak_of(Category::kCommunication);
}

TEST(Nccl, HoldsItsStagingMemoryAndTakesNoMore) {
  on_ranks(3, [](RankContext& context, Communicator& communicator) {
    EXPECT_EQ(peak_of_communication(context), 4096);
    const Tensor buffer = tensor_of_rank(context, 30'000);
    communicator.all_reduce(context.communication(), buffer, 1.0, kGradientTag);
    communicator.barrier();
    EXPECT_EQ(peak_of_communication(context), 4096);
  });
  on_ranks(
      1, [](RankContext& context, Communicator&) { EXPECT_EQ(peak_of_communication(context), 0); });
  // Of 1000 bytes, 7 ranks' 6 peers get 160 each; the dry run holds what the run does.
  EXPECT_EQ(staging_bytes_for_a_peer({.staging_bytes = 1000}, 7), 160);
  EXPECT_EQ(staging_bytes_for_a_peer({.staging_bytes = 1}, 7), 16);
  const std::unique_ptr<Backend> plain = make_plain_backend();
  const std::unique_ptr<Backend> meta = make_meta_backend(*plain);
  RankContext context({.world_size = 7}, *meta);
  const auto communicator = make_meta_communicator(context, 6 * 160);
  EXPECT_EQ(peak_of_communication(context), 960);
}

/// Once the ranks are connected, a verb returns while its peers are still to come.
TEST(Nccl, AVerbDoesNotWaitOnTheHost) {
  std::atomic<bool> called = false;
  on_ranks(2, [&](RankContext& context, Communicator& communicator) {
    communicator.barrier();
    const Tensor buffer = tensor_of_rank(context, 5000);
    if (context.rank() == 1) {
      called.wait(false);
    }
    communicator.all_reduce(context.communication(), buffer, 1.0, kGradientTag);
    communicator.reduce(context.communication(), buffer, 0, 1.0, kGradientTag);
    communicator.all_gather(context.communication(), buffer, kParameterTag);
    called = true;
    called.notify_all();
    context.communication().synchronize();
  });
}

TEST(Nccl, TheTimeOfAVerbOnItsStreamIsTransfer) {
  on_ranks(2, [](RankContext& context, Communicator& communicator) {
    const Tensor buffer = tensor_of_rank(context, 10'000);
    communicator.barrier();
    communicator.ledger().reset();
    context.recorder().take();
    const Clock::time_point before = Clock::now();
    communicator.all_reduce(context.communication(), buffer, 1.0, kGradientTag);
    communicator.all_gather(context.communication(), buffer, kParameterTag);
    context.communication().synchronize();
    const auto entries = communicator.ledger().entries();
    const std::vector<Span> spans = context.recorder().take();
    ASSERT_EQ(spans.size(), 4);
    for (const Span& span : spans) {
      EXPECT_LE(span.begin, span.end);
    }
    EXPECT_EQ(spans[0].kind, SpanKind::kCommWait);
    EXPECT_EQ(spans[0].milliseconds(), 0.0);
    EXPECT_EQ(spans[1].kind, SpanKind::kCommTransfer);
    EXPECT_EQ(spans[1].name, "all_reduce");
    EXPECT_EQ(spans[1].bytes, 40'000);
    EXPECT_EQ(spans[3].name, "all_gather");
    EXPECT_LE(spans[1].end, spans[3].begin);
    EXPECT_GE(spans[1].begin, before - std::chrono::milliseconds(1));
    const auto entry = entries.at({CollectiveOp::kAllReduce, Purpose::kGradient});
    EXPECT_EQ(entry.wait_ms, 0.0);
    EXPECT_EQ(entry.transfer_ms, spans[1].milliseconds());
  });
}

/// Rank 2 calls `odd`, the others `common`: every rank's error names both calls.
void expect_disagreement(const RankBody& common, const std::string& common_name,
                         const RankBody& odd, const std::string& odd_name) {
  const Outcome outcome = run_failing([&](RankContext& context, Communicator& communicator) {
    gather(context, communicator, context.communication());
    (context.rank() == 2 ? odd : common)(context, communicator);
    context.communication().synchronize();
    context.compute().synchronize();
  });
  expect_on_every_rank(outcome, outcome.thrown);
  EXPECT_TRUE(outcome.thrown.starts_with("[comm] ranks disagree at collective 2: rank "))
      << outcome.thrown;
  for (const std::string& name : {common_name, "rank 2 calls " + odd_name}) {
    EXPECT_NE(outcome.thrown.find(name), std::string::npos)
        << outcome.thrown << " without " << name;
  }
}

TEST(Nccl, DifferentCallsAreNamedOnEveryRank) {
  const auto reduce = [](int64_t numel, double divisor) -> RankBody {
    return [=](RankContext& context, Communicator& communicator) {
      const Tensor buffer = tensor_of_rank(context, numel);
      communicator.all_reduce(context.communication(), buffer, divisor, kGradientTag);
    };
  };
  const std::string name = "all_reduce(gradient, bucket 3, 32 bytes of fp32, divisor 4)";
  expect_disagreement(reduce(8, 4), name, reduce(9, 4),
                      "all_reduce(gradient, bucket 3, 36 bytes of fp32, divisor 4)");
  expect_disagreement(reduce(8, 4), name, reduce(8, 2),
                      "all_reduce(gradient, bucket 3, 32 bytes of fp32, divisor 2)");
  const RankBody barrier = [](RankContext&, Communicator& communicator) { communicator.barrier(); };
  expect_disagreement(reduce(8, 4), name, barrier, "barrier()");
  expect_disagreement(
      barrier, "barrier()",
      [](RankContext& context, Communicator& communicator) {
        gather(context, communicator, context.compute());
      },
      kWholeGather);
}

TEST(Nccl, RanksNeedADeviceEach) {
  const std::unique_ptr<RankGroup> group = make_test_group(2);
  set_num_devices(1);
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  const std::string error = error_of([&] {
    run_ranks(*group, [&](int rank) {
      RankContext context({.rank = rank, .world_size = 2}, *backend);
      group->communicator(context)->barrier();
    });
  });
  EXPECT_EQ(error,
            "[comm] NCCL needs a device for each rank; got device 0 for ranks 0 and 1; ranks that "
            "share one need the local communicator");
}

TEST(Nccl, RanksComputeOnDevices) {
  const std::unique_ptr<RankGroup> group = make_test_group(1);
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RankContext context({}, *backend);
  EXPECT_EQ(error_of([&] { group->communicator(context); }),
            "[comm] NCCL joins ranks of the cuda backend; got one of plain");
}

}  // namespace
}  // namespace zerolab
