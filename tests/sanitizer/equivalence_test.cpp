#include <gtest/gtest.h>

#include "framework/plain/backend.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {
namespace {

struct Combination {
  int stage;
  int world_size;
  int micro_batches;
  bool clip;
  bool tied;
  int64_t bucket;
  bool overlap;
  bool reduce_scatter;
  bool each_micro_batch;
  bool lazy;
  bool bucketed;
  bool contiguous_gradients;
};

constexpr int64_t kWhole = 1'000'000;

/// Every pair of values of two settings comes at least once, but for what is one setting by nature
/// (DDP without reduce_scatter); more than once where threads meet: overlap, immediate streams.
const Combination kPairwise[] = {
    // stage, N, k, clip, tied, bucket, overlap, reduce_scatter, each, lazy, bucketed, contiguous
    {0, 2, 1, true, true, 1, true, true, false, false, true, true},
    {0, 3, 3, false, false, 333, false, true, true, true, false, false},
    {0, 4, 1, false, true, 333, true, true, true, false, true, false},
    {0, 7, 3, true, false, kWhole, true, true, true, false, false, true},
    {0, 1, 3, false, true, 1, false, true, true, true, false, true},
    {1, 2, 3, false, false, 1, true, true, true, true, true, true},
    {1, 3, 1, true, true, 333, true, true, false, false, false, false},
    {1, 4, 3, true, false, kWhole, false, true, true, false, true, false},
    {1, 7, 1, false, true, 1, true, true, true, false, true, false},
    {1, 1, 1, true, false, 333, true, true, false, true, false, true},
    {1, 2, 3, true, true, kWhole, false, false, true, false, true, true},
    {1, 3, 3, false, true, 1, true, false, true, false, false, false},
    {1, 4, 1, false, false, 333, true, false, false, true, false, false},
    {1, 7, 3, true, true, 333, false, false, true, true, true, false},
    {1, 1, 3, false, false, kWhole, true, false, true, false, false, true},
    {2, 2, 1, false, true, 333, true, true, false, false, true, true},
    {2, 3, 3, true, false, 1, true, true, false, false, true, true},
    {2, 4, 3, false, true, 1, true, true, true, true, false, false},
    {2, 7, 1, true, false, 333, true, true, false, false, true, false},
    {2, 1, 3, true, true, kWhole, false, true, false, false, false, true},
    {2, 2, 3, true, false, kWhole, true, true, true, true, false, true},
    {2, 3, 1, false, true, kWhole, false, false, false, true, true, true},
    {2, 4, 3, true, true, 333, true, false, false, false, false, false},
    {2, 7, 3, false, false, 1, true, false, true, false, true, false},
    {2, 1, 1, false, true, 1, true, false, true, false, true, false},
};

/// A subset of the equivalence matrix (docs/design.md 8) where nothing hides or fakes a race: the
/// plain backend without OpenMP.
TEST(Sanitizer, APairwiseSubsetOfTheMatrixHasTheBitsOfDdp) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const Combination& c : kPairwise) {
    RunSetup ddp;
    ddp.world_size = c.world_size;
    ddp.steps = 2;
    ddp.micro_batch = 1;
    ddp.engine.gradient_accumulation_steps = c.micro_batches;
    ddp.engine.gradient_clipping = c.clip ? 0.1 : 0.0;
    ddp.engine.reduce_bucket_size = kWhole;
    ddp.engine.reduce_each_micro_batch = c.micro_batches > 1;
    const Outcome expected = run(*backend, tiny_gpt(c.tied), ddp);
    RunSetup setup = ddp;
    setup.engine.stage = c.stage;
    setup.engine.reduce_scatter = c.reduce_scatter;
    setup.engine.reduce_bucket_size = c.bucket;
    setup.engine.overlap_comm = c.overlap;
    setup.engine.reduce_each_micro_batch = c.each_micro_batch;
    setup.engine.layout = c.bucketed ? zero::LayoutKind::kBucketed : zero::LayoutKind::kContiguous;
    setup.engine.contiguous_gradients = c.contiguous_gradients;
    setup.streams = c.lazy ? StreamMode::kLazy : StreamMode::kImmediate;
    setup.lazy_seed = 5;
    EXPECT_EQ(difference(run(*backend, tiny_gpt(c.tied), setup), expected), "")
        << setup.to_string();
  }
}

/// Stage switches and 16-bit parameters, where state moves between ranks.
TEST(Sanitizer, StageSwitchesInBf16) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const bool bucketed : {true, false}) {
    RunSetup setup;
    setup.world_size = 3;
    setup.steps = 5;
    setup.micro_batch = 1;
    setup.engine.overlap_comm = true;
    setup.engine.reduce_bucket_size = 333;
    setup.engine.layout = bucketed ? zero::LayoutKind::kBucketed : zero::LayoutKind::kContiguous;
    const Outcome expected = run(*backend, tiny_gpt(true, DType::kBFloat16), setup);
    setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
      engine.set_stage(std::vector<int>{1, 2, 0, 2, 1, 0}[step]);
    };
    EXPECT_EQ(difference(run(*backend, tiny_gpt(true, DType::kBFloat16), setup), expected), "");
  }
}

}  // namespace
}  // namespace zerolab::test
