#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/spine/equivalence/exact_model.h"

namespace zerolab::test {
namespace {

ExactModel many_parameters(int count) {
  std::vector<int64_t> sizes;
  for (int i = 0; i < count; ++i) {
    sizes.push_back(1 + i % 5);
  }
  return {.shapes = flat_shapes(sizes), .coefficient = ExactModel::multiples_of(12)};
}

/// docs/faults.md 11: the streams of compute and communication with a bucket for every parameter.
TEST(Sanitizer, OverlapOfManyTinyBuckets) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = many_parameters(100);
  for (const int stage : {0, 1, 2}) {
    RunSetup setup = exact_setup(3, 2);
    setup.steps = 4;
    setup.engine.stage = stage;
    setup.engine.overlap_comm = true;
    setup.engine.reduce_bucket_size = 1;
    EXPECT_EQ(run(*backend, model.factory(), setup).weights, expected_weights(model, setup));
  }
}

/// A rank that fails in the middle of a backward, while reductions are in flight: nothing is freed
/// under a peer, nothing leaks, nobody hangs.
TEST(Sanitizer, FailuresInTheMiddleOfABackward) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const StreamMode streams : {StreamMode::kImmediate, StreamMode::kLazy}) {
    for (const int stage : {0, 1, 2}) {
      for (const bool overlap : {false, true}) {
        ExactModel model = many_parameters(20);
        std::vector<int> gradients(4);
        model.during_backward = [&gradients](RankContext& context, const autograd::Destination&) {
          const bool broken = ++gradients[context.rank()] == 50 && context.rank() == 2;
          require(!broken, "test", "rank 2 broke");
        };
        RunSetup setup = exact_setup(4);
        setup.steps = 10;
        setup.streams = streams;
        setup.engine.stage = stage;
        setup.engine.overlap_comm = overlap;
        setup.engine.reduce_bucket_size = 10;
        try {
          run(*backend, model.factory(), setup);
          FAIL() << setup.to_string();
        } catch (const std::exception& error) {
          EXPECT_STREQ(error.what(), "[test] rank 2 broke") << setup.to_string();
        }
      }
    }
  }
}

/// An engine that goes while gathers are still running: the buffers outlive them.
TEST(Sanitizer, AnEngineEndsWithGathersPending) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const StreamMode streams : {StreamMode::kImmediate, StreamMode::kLazy}) {
    RunSetup setup = exact_setup(3);
    setup.streams = streams;
    setup.engine.stage = 2;
    setup.engine.overlap_comm = true;
    setup.engine.reduce_bucket_size = 1;
    int64_t updates = 0;
    on_engines(*backend, many_parameters(50).factory(), setup, [&](EngineRank& rank) {
      rank.accumulate(setup, 0);
      rank.engine.step({.learning_rate = 0.1});
      if (rank.communicator.rank() == 0) {
        updates = rank.engine.updates();
      }
    });
    EXPECT_EQ(updates, 1);
  }
}

}  // namespace
}  // namespace zerolab::test
