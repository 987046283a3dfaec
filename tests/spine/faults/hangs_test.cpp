#include <gtest/gtest.h>

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

/// Where a rank goes wrong, in its step 3.
enum class Place : uint8_t { kForward, kBackward, kReturn };

RunSetup long_run() {
  RunSetup setup = exact_setup(4, 2);
  setup.steps = 1000;
  setup.timeout_s = 100.0;  // what a hang would last
  setup.engine.reduce_bucket_size = 64;
  return setup;
}

struct Ending {
  std::string message;
  int unwound = 0;  ///< ranks whose body ended
  double seconds = 0.0;
};

/// Runs until `culprit` fails at `place`.
Ending run_until_failure(const RunSetup& setup, Place place, int culprit) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({100, 30, 200, 7, 90})};
  std::vector<int> backwards(setup.world_size);
  model.during_backward = [&](RankContext& context, const autograd::Destination&) {
    // Five parameters and two micro-batches a step: in the middle of step 3.
    if (++backwards[context.rank()] == 33 && place == Place::kBackward &&
        context.rank() == culprit) {
      fail("test", "the backward of rank {} broke", culprit);
    }
  };
  std::atomic<int> unwound = 0;
  const auto begin = std::chrono::steady_clock::now();
  Ending ending;
  try {
    on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
      struct AtEnd {
        std::atomic<int>& count;
        ~AtEnd() { ++count; }
      } const at_end{unwound};
      for (int step = 0; step < setup.steps; ++step) {
        if (step == 3 && rank.communicator.rank() == culprit) {
          require(place != Place::kForward, "test", "the forward of rank {} broke", culprit);
          if (place == Place::kReturn) {
            return;
          }
        }
        rank.accumulate(setup, step);
        rank.engine.step({.learning_rate = 0.1});
      }
    });
  } catch (const std::exception& error) {
    ending.message = error.what();
  }
  ending.unwound = unwound;
  ending.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return ending;
}

class Hangs : public testing::TestWithParam<Place> {};

TEST_P(Hangs, Row28_EveryRankEndsAtOnceWithTheFirstMessage) {
  const std::vector<std::string> messages = {"the forward of rank {} broke",
                                             "the backward of rank {} broke",
                                             "rank {} left the group while rank"};
  for (const int culprit : {0, 2}) {
    for (const RunSetup& setup : stages_of(long_run())) {
      const Ending ending = run_until_failure(setup, GetParam(), culprit);
      const std::string expected =
          fmt::format(fmt::runtime(messages[static_cast<int>(GetParam())]), culprit);
      EXPECT_NE(ending.message.find(expected), std::string::npos)
          << "'" << ending.message << "' " << setup.to_string();
      EXPECT_EQ(ending.unwound, 4);
      EXPECT_LT(ending.seconds, 10.0) << setup.to_string();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Faults, Hangs,
                         testing::Values(Place::kForward, Place::kBackward, Place::kReturn));

/// A rank that stalls is given up after the timeout, by name.
TEST(Faults, Row28_ASilentRankEndsTheRunAtTheTimeout) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (RunSetup setup : stages_of(exact_setup(3))) {
    setup.timeout_s = 0.1;
    ExactModel model = {.shapes = flat_shapes({100, 30})};
    try {
      on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
        if (rank.communicator.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
        }
        rank.accumulate(setup, 0);
        rank.engine.step({.learning_rate = 0.1});
      });
      FAIL() << setup.to_string();
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 did not arrive at"), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("(gradient, bucket 0: p1 … p0)"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace zerolab::test
