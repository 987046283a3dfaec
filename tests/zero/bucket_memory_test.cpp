#include "zero/bucket_memory.h"

#include <gtest/gtest.h>

#include "framework/tensor/backend.h"
#include "tests/framework/test_rank.h"
#include "tests/zero/recording_communicator.h"

namespace zerolab::zero {
namespace {

/// The memory of four parameters' gradients, with all that it needs; fresh memory is NaN.
struct Memory {
  explicit Memory(const EngineOptions& options, int own_bucket = -1)
      : rank({.poison = true}),
        layout(layout_of({3, 4, 5, 6}, own_bucket)),
        plan(options),
        storage(rank.context, layout, plan),
        reducer(rank.context, communicator, layout, plan, storage, Tensor()),
        memory(rank.context, layout, plan, storage, reducer) {}

  void write(int parameter, double value) {
    rank.backend->fill(rank.context.compute(), memory.gradient(parameter), value);
  }
  int64_t buffer_bytes() {
    return rank.context.ledger().snapshot().current[static_cast<int>(Category::kGradientBuckets)];
  }

  TestRank rank;
  RecordingCommunicator communicator;
  const Layout layout;
  const StagePlan plan;
  GradientStorage storage;
  GradientReducer reducer;
  BucketMemory memory;
};

TEST(BucketMemory, ViewsLieInTheFlatGradientBuffer) {
  Memory of({.stage = 1});
  of.write(3, 2.0);  // bucket 0
  EXPECT_EQ(of.rank.numbers(of.storage.bucket(0)), (std::vector<double>{2, 2, 2, 2, 2, 2, 0, 0}));
  EXPECT_EQ(of.memory.take(0).raw(), of.storage.bucket(0).raw());
  EXPECT_EQ(of.memory.gradient(3).raw(), of.storage.bucket(0).raw());  // it stays
  EXPECT_EQ(of.buffer_bytes(), 0);
}

TEST(BucketMemory, ABufferLivesFromItsFirstGradientUntilItsTakerDropsIt) {
  Memory of({.stage = 2});
  EXPECT_EQ(of.buffer_bytes(), 0);
  of.write(2, 3.0);  // bucket 1: 5 elements and 3 of padding
  EXPECT_EQ(of.buffer_bytes(), 8 * 4);
  {
    const Tensor taken = of.memory.take(1);
    EXPECT_EQ(of.rank.numbers(taken), (std::vector<double>{3, 3, 3, 3, 3, 0, 0, 0}));
    EXPECT_EQ(of.buffer_bytes(), 8 * 4);
  }
  EXPECT_EQ(of.buffer_bytes(), 0);
}

TEST(BucketMemory, AThirdOpenBufferIsCountedWithItsParameter) {
  Memory of({.stage = 2});
  of.write(3, 1.0);
  of.write(2, 1.0);
  EXPECT_EQ(of.memory.excess_buffers(), 0);
  EXPECT_EQ(of.memory.excess_parameter(), -1);
  of.write(1, 1.0);
  EXPECT_EQ(of.memory.excess_buffers(), 1);
  EXPECT_EQ(of.memory.excess_parameter(), 1);
  of.memory.take(0);
  of.memory.take(1);
  of.write(0, 1.0);  // one is open: there is room
  EXPECT_EQ(of.memory.excess_buffers(), 1);
}

TEST(BucketMemory, TheBufferOfATiedParameterIsNotCounted) {
  Memory of({.stage = 2}, /*own_bucket=*/2);
  for (const int parameter : {3, 2, 1}) {
    of.write(parameter, 1.0);
  }
  EXPECT_EQ(of.memory.excess_buffers(), 0);
  of.write(0, 1.0);
  EXPECT_EQ(of.memory.excess_buffers(), 1);
}

/// A third buffer gives back the oldest reduction's, which overlap keeps alive.
TEST(BucketMemory, AThirdBufferWaitsForTheOldestReduction) {
  Memory of({.stage = 2, .overlap_comm = true});
  for (const int parameter : {3, 2, 1, 0}) {
    of.write(parameter, 1.0);
    EXPECT_LE(of.buffer_bytes(), 2 * 8 * 4) << "parameter " << parameter;
    of.reducer.reduce(3 - parameter, of.memory.take(3 - parameter), false);
  }
  EXPECT_EQ(of.memory.excess_buffers(), 0);
}

TEST(BucketMemory, PackedGradientsAreCopiedIntoTheirBucketWhenItIsTaken) {
  for (const int stage : {0, 2}) {
    Memory of({.stage = stage, .contiguous_gradients = false});
    of.write(0, 7.0);
    EXPECT_EQ(of.buffer_bytes(), 0);
    EXPECT_EQ(of.rank.numbers(of.memory.take(3)), (std::vector<double>{7, 7, 7, 0}));
    EXPECT_EQ(of.buffer_bytes(), 0);
  }
}

}  // namespace
}  // namespace zerolab::zero
