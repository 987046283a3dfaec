#include <atomic>
#include <thread>

#include "framework/plain/plain_backend.h"
#include "tests/comm/failing.h"

namespace zerolab {
namespace {

using std::chrono::milliseconds;

// A modelled sleep is far longer than the 10 s that `run_failing` allows.
constexpr LocalOptions kSlowLink = {.timeout_s = 60, .latency_us = 60e6 / (kRanks - 1)};

/// What an engine does before its buffers go.
class Finish {
 public:
  explicit Finish(Stream& stream) : stream_(stream) {}
  ~Finish() {
    error_of([&] { stream_.synchronize(); });
  }

 private:
  Stream& stream_;
};

TEST(ModelledSleep, EndsWhenARankFails) {
  for (const int64_t slice : {8, 4096}) {
    const Outcome outcome = run_failing(
        [&](RankContext& context, Communicator& communicator) {
          const Tensor buffer = tensor_of_rank(context, slice * kRanks);
          const Finish finish(context.communication());
          const AbortOnUnwind abort_on_unwind(communicator);
          communicator.all_gather(context.communication(), buffer, kNormTag);
          std::this_thread::sleep_for(milliseconds(100));
          require(context.rank() != 1, "model", "bad shape");
          context.communication().synchronize();
          gather(context, communicator, context.communication());
        },
        {.group = kSlowLink});
    EXPECT_EQ(outcome.thrown, "[model] bad shape");
    expect_on_peers(outcome, 1, "[model] bad shape", kGather);
  }
}

TEST(ModelledSleep, OfJitterEndsWhenARankFails) {
  const Outcome outcome = run_failing(
      [](RankContext& context, Communicator& communicator) {
        require(context.rank() != 1, "model", "bad shape");
        gather(context, communicator, context.communication());
      },
      {.group = {.timeout_s = 60, .jitter_us = 60e6}});
  EXPECT_EQ(outcome.thrown, "[model] bad shape");
  expect_on_peers(outcome, 1, "[model] bad shape", kGather);
}

TEST(ModelledSleep, IsNoSilenceButAStalledRankIs) {
  const Outcome outcome = run_failing(
      [](RankContext& context, Communicator& communicator) {
        // Lasts longer than the timeout.
        gather(context, communicator, context.communication());
        gather(context, communicator, context.communication());
        if (context.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(900));
        }
        gather(context, communicator, context.communication());
      },
      {.group = {.timeout_s = 0.3, .latency_us = 400e3 / (kRanks - 1)}});
  expect_on_every_rank(outcome, "[comm] rank 1 did not arrive at " + kGather +
                                    " within 0.3 s; a rank that is only slow needs a longer "
                                    "comm.timeout_s");
}

/// Its second sum fails.
class FailingBackend final : public PlainBackend {
 public:
  void reduce_in_order(std::span<const std::byte* const> sources, DType dtype, double divisor,
                       std::span<std::byte> out) override {
    require(++sums_ != 2, "backend", "no memory");
    PlainBackend::reduce_in_order(sources, dtype, divisor, out);
  }

 private:
  std::atomic<int> sums_ = 0;
};

TEST(KernelFailure, WithinACollectiveEndsAllRanks) {
  for (const int64_t numel : {8, 40000}) {  // moved by the last rank, and by each
    FailingBackend backend;
    const Outcome outcome = run_failing(
        [&](RankContext& context, Communicator& communicator) {
          const Tensor buffer = tensor_of_rank(context, numel);
          communicator.all_reduce(context.communication(), buffer, 1.0, kNormTag);
          context.communication().synchronize();
        },
        {}, &backend);
    for (const std::string& text : outcome.ranks) {
      EXPECT_NE(text.find("failed: [backend] no memory in all_reduce(parameter, bucket 2: "
                          "h.0.ln_1.weight … h.0.ln_1.bias)"),
                std::string::npos)
          << text;
    }
  }
}

}  // namespace
}  // namespace zerolab
