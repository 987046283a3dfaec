#include <atomic>
#include <thread>

#include "framework/tensor/backend.h"
#include "tests/comm/failing.h"

namespace zerolab {
namespace {

using std::chrono::milliseconds;

constexpr StreamMode kModes[] = {StreamMode::kImmediate, StreamMode::kLazy};

TEST(Failure, OfARankEndsTheOthersWithItsMessage) {
  for (const StreamMode mode : kModes) {
    const Outcome outcome = run_failing(
        [](RankContext& context, Communicator& communicator) {
          gather(context, communicator, context.communication());
          require(context.rank() != 2, "data", "the file is gone");
          gather(context, communicator, context.communication());
        },
        {.streams = mode});
    EXPECT_EQ(outcome.thrown, "[data] the file is gone");
    expect_on_peers(outcome, 2, "[data] the file is gone", kGather);
  }
}

TEST(Failure, OfUnknownTypeEndsTheOthersToo) {
  Outcome outcome;
  outcome.ranks.resize(kRanks);
  EXPECT_THROW(on_ranks(kRanks,
                        [&](RankContext& context, Communicator& communicator) {
                          if (context.rank() == 2) {
                            throw 7;
                          }
                          outcome.ranks[context.rank()] = error_of(
                              [&] { gather(context, communicator, context.communication()); });
                        }),
               int);
  expect_on_peers(outcome, 2, "an exception of unknown type", kGather);
}

TEST(Failure, KeepsItsType) {
  const RankBody body = [](RankContext& context, Communicator& communicator) {
    if (context.rank() == 1) {
      throw ConfigError("config", "no such key");
    }
    gather(context, communicator, context.compute());
  };
  EXPECT_THROW(on_ranks(3, body), ConfigError);
  EXPECT_THROW(on_ranks(1, [](RankContext&, Communicator&) { throw std::out_of_range("x"); }),
               std::out_of_range);
  EXPECT_THROW(on_ranks(2, [](RankContext&, Communicator&) { throw 7; }), int);
}

TEST(Failure, ReleasesTheRanksOwnWorkerBeforeItIsJoined) {
  // Rank 2's worker waits for peers that never come; its exception unwinds past that worker.
  const Outcome outcome = run_failing([](RankContext& context, Communicator& communicator) {
    gather(context, communicator, context.communication());
    if (context.rank() == 2) {
      const Tensor buffer = tensor_of_rank(context, 4096);
      communicator.all_reduce(context.communication(), buffer, 1.0, kGradientTag);
      const AbortOnUnwind abort_on_unwind(communicator);
      throw Error("model", "bad shape");
    }
    std::this_thread::sleep_for(milliseconds(100));
    gather(context, communicator, context.compute());
  });
  EXPECT_EQ(outcome.thrown, "[model] bad shape");
  expect_on_peers(outcome, 2, "[model] bad shape", kGather);
}

TEST(Failure, IsReplacedByItsRanksBetterReasonOnly) {
  const std::unique_ptr<RankGroup> owner = make_test_group(3);
  RankGroup& group = *owner;
  EXPECT_EQ(group.failure(), "");
  group.abort(1, "an exception ended it");
  group.abort(2, "rank 1 failed");
  EXPECT_EQ(group.failure(), "rank 1 failed: an exception ended it");
  group.abort(1, "no memory");
  EXPECT_EQ(group.failure(), "rank 1 failed: no memory");
}

TEST(Failure, StaysWithTheGroup) {
  const std::unique_ptr<RankGroup> group = make_test_group(1);
  group->abort(0, "stopped");
  EXPECT_EQ(error_of([&] {
              run_ranks(*group, [&](int) {
                const std::unique_ptr<Backend> backend = make_test_backend();
                RankContext context({}, *backend);
                const std::unique_ptr<Communicator> communicator = group->communicator(context);
                communicator->barrier();
              });
            }),
            "[comm] rank 0 failed: stopped");
  EXPECT_EQ(error_of([&] { run_ranks(*group, [](int) {}); }), "[comm] rank 0 failed: stopped");
}

TEST(Failure, BetweenTransfersNeverFreesMemoryUnderAPeer) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    const Outcome outcome = run_failing([&](RankContext& context, Communicator& communicator) {
      const Tensor buffer = tensor_of_rank(context, 40000);
      communicator.all_gather(context.communication(), buffer, kParameterTag);
      if (context.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::microseconds(attempt * 50));
        communicator.abort("stop now");
      }
      // What an engine does in its destructor.
      context.communication().synchronize();
      gather(context, communicator, context.compute());
    });
    EXPECT_EQ(outcome.thrown, "[comm] rank 1 failed: stop now");
  }
}

TEST(Departure, OfARankEndsThoseThatWaitForIt) {
  for (const StreamMode mode : kModes) {
    for (const milliseconds delay : {milliseconds(0), milliseconds(50)}) {
      const Outcome outcome = run_failing(
          [&](RankContext& context, Communicator& communicator) {
            gather(context, communicator, context.compute());
            if (context.rank() == 3) {
              std::this_thread::sleep_for(delay);
              return;
            }
            gather(context, communicator, context.communication());
          },
          {.streams = mode});
      EXPECT_TRUE(outcome.thrown.starts_with("[comm] rank 3 left the group while rank "))
          << outcome.thrown;
      EXPECT_TRUE(outcome.thrown.ends_with(" waits at " + kWholeGather +
                                           "; all ranks must make the same calls"));
      EXPECT_EQ(outcome.ranks[3], "");
      for (const int rank : {0, 1, 2}) {
        EXPECT_EQ(outcome.ranks[rank], outcome.thrown);
      }
    }
  }
}

TEST(Departure, DoesNotOutlastTheRun) {
  const std::unique_ptr<RankGroup> group = make_test_group(3);
  for (int run = 0; run < 3; ++run) {
    run_ranks(*group, [&](int rank) {
      const std::unique_ptr<Backend> backend = make_test_backend();
      RankContext context({.rank = rank, .world_size = 3}, *backend);
      const std::unique_ptr<Communicator> communicator = group->communicator(context);
      gather(context, *communicator, context.communication());
    });
  }
}

TEST(Silence, EndsByTheTimeoutWithTheMissingRanks) {
  for (const StreamMode mode : kModes) {
    const Outcome outcome = run_failing(
        [](RankContext& context, Communicator& communicator) {
          if (context.rank() == 1 || context.rank() == 3) {
            std::this_thread::sleep_for(milliseconds(900));
          }
          gather(context, communicator, context.communication());
        },
        {.streams = mode, .group = {.timeout_s = 0.3}});
    expect_on_every_rank(
        outcome, "[comm] ranks 1, 3 did not arrive at " + kGather +
                     " within 0.3 s; a rank that is only slow needs a longer comm.timeout_s");
  }
}

}  // namespace
}  // namespace zerolab
