#include "zero/gradient_buckets.h"

#include <gtest/gtest.h>

#include <memory>

#include "framework/core/error.h"
#include "framework/tensor/backend.h"
#include "tests/framework/test_rank.h"
#include "tests/zero/recording_communicator.h"

namespace zerolab::zero {
namespace {

/// Four parameters, "p0" to "p3", attached to buckets 3 to 0.
struct Buckets {
  explicit Buckets(const EngineOptions& options)
      : rank({.poison = true}),
        layout(layout_of({3, 4, 5, 6})),
        plan(options),
        owned(parameters_of(rank, layout)),
        parameters{owned[0].get(), owned[1].get(), owned[2].get(), owned[3].get()},
        storage(rank.context, layout, plan),
        reducer(rank.context, communicator, layout, plan, storage, Tensor()),
        memory(rank.context, layout, plan, storage, reducer),
        buckets(rank.context, layout, plan, parameters, memory, reducer) {}

  static std::vector<std::unique_ptr<Parameter>> parameters_of(TestRank& rank,
                                                               const Layout& layout) {
    std::vector<std::unique_ptr<Parameter>> made;
    for (const LayoutParameter& parameter : layout.parameters()) {
      made.push_back(std::make_unique<Parameter>(
          parameter.name, Tensor::zeros(rank.context, Shape{parameter.numel}, DType::kFloat32)));
    }
    return made;
  }

  /// A contribution of `value` to every element of the gradient, which is its backward's last.
  void contribute(int parameter, double value) {
    const autograd::Destination to = buckets.open(*parameters[parameter]);
    const Tensor gradient = Tensor::empty_like(to.tensor);
    rank.backend->fill(rank.context.compute(), gradient, value);
    if (to.accumulate) {
      rank.backend->accumulate(rank.context.compute(), gradient, to.tensor);
    } else {
      rank.backend->copy(rank.context.compute(), gradient, to.tensor);
    }
    buckets.ready(*parameters[parameter]);
  }
  /// The gradient that is kept until the step, but for padding.
  double kept(int parameter) {
    const ParameterRange& range = layout.ranges()[parameter];
    return rank.numbers(storage.at({parameter, range.offset, range.offset, range.numel}))[0];
  }

  TestRank rank;
  RecordingCommunicator communicator;
  const Layout layout;
  const StagePlan plan;
  const std::vector<std::unique_ptr<Parameter>> owned;
  const std::vector<Parameter*> parameters;
  GradientStorage storage;
  GradientReducer reducer;
  BucketMemory memory;
  GradientBuckets buckets;
};

class BucketOrder : public testing::TestWithParam<int> {};

TEST_P(BucketOrder, IsTheLayoutsWhateverGradientsComeFirst) {
  Buckets of({.stage = GetParam()});
  of.buckets.begin_micro_batch(0);
  of.buckets.begin_backward(true);
  of.contribute(1, 1.0);
  of.contribute(2, 1.0);
  EXPECT_EQ(of.communicator.buckets, std::vector<int>{});  // bucket 0 is p3's
  of.contribute(3, 1.0);
  EXPECT_EQ(of.communicator.buckets, (std::vector<int>{0, 1, 2}));
  of.contribute(0, 1.0);
  EXPECT_EQ(of.communicator.buckets, (std::vector<int>{0, 1, 2, 3}));
  of.buckets.end_micro_batch();
  EXPECT_EQ(of.communicator.buckets, (std::vector<int>{0, 1, 2, 3}));
}

TEST_P(BucketOrder, WhatNoBackwardReachedIsZeroAndReduced) {
  Buckets of({.stage = GetParam()});
  of.buckets.begin_micro_batch(0);
  of.buckets.begin_backward(true);
  of.contribute(2, 5.0);
  of.buckets.end_micro_batch();
  EXPECT_EQ(of.communicator.buckets, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(of.kept(2), 5.0);
  EXPECT_EQ(of.kept(0), 0.0);
  EXPECT_EQ(of.kept(3), 0.0);
}

TEST_P(BucketOrder, OnlyTheLastBackwardStartsReductions) {
  Buckets of({.stage = GetParam()});
  of.buckets.begin_micro_batch(0);
  of.buckets.begin_backward(false);
  for (const int parameter : {3, 2, 1, 0}) {
    of.contribute(parameter, 1.0);
  }
  EXPECT_EQ(of.communicator.buckets, std::vector<int>{});
  of.buckets.begin_backward(true);
  for (const int parameter : {3, 2, 1, 0}) {
    of.contribute(parameter, 2.0);
  }
  EXPECT_EQ(of.communicator.buckets, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(of.kept(1), 3.0);
  EXPECT_THROW(of.contribute(1, 1.0), Error);  // after its reduction
}

INSTANTIATE_TEST_SUITE_P(Stages, BucketOrder, testing::Values(0, 1, 2));

/// Stages 0 and 1 add micro-batches up and reduce their sum; stage 2 reduces each.
TEST(GradientBuckets, MicroBatchesAddUp) {
  for (const int stage : kStages) {
    Buckets of({.stage = stage, .gradient_accumulation_steps = 3});
    for (int step = 0; step < 2; ++step) {
      of.communicator.buckets.clear();
      for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
        of.buckets.begin_micro_batch(micro_batch);
        of.buckets.begin_backward(true);
        for (const int parameter : {3, 2, 1, 0}) {
          of.contribute(parameter, 1.0 + micro_batch);
        }
        of.buckets.end_micro_batch();
        EXPECT_EQ(std::ssize(of.communicator.buckets),
                  stage == 2 ? 4 * (micro_batch + 1) : 4 * (micro_batch / 2));
      }
      EXPECT_EQ(of.kept(0), 6.0);
      EXPECT_EQ(of.kept(3), 6.0);
    }
  }
}

}  // namespace
}  // namespace zerolab::zero
