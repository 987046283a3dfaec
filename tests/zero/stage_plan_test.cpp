#include "zero/stage_plan.h"

#include <gtest/gtest.h>

#include <utility>

#include "framework/core/error.h"

namespace zerolab::zero {
namespace {

std::string refusal_of(const EngineOptions& options) {
  try {
    StagePlan{options};
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Every combination is either legal or refused with its reason: docs/faults.md 20, the half that
/// is a table.
TEST(StagePlan, RefusesWhatNoEngineCouldHonour) {
  const auto expect_refused = [](const EngineOptions& options, const std::string& reason) {
    EXPECT_NE(refusal_of(options).find(reason), std::string::npos) << refusal_of(options);
  };
  for (const int stage : kStages) {
    expect_refused({.stage = stage, .prescale_gradients = true}, "set zero.reduce_scatter = false");
    expect_refused({.stage = stage, .gradient_predivide_factor = 2.0},
                   "set zero.reduce_scatter = false");
    expect_refused({.stage = stage,
                    .reduce_scatter = false,
                    .prescale_gradients = true,
                    .gradient_predivide_factor = 2.0},
                   "drop one of the two");
    expect_refused({.stage = stage, .reduce_scatter = false, .gradient_predivide_factor = 0.0},
                   "must be positive");
    expect_refused({.stage = stage, .allgather_bucket_size = 100}, "layout = \"contiguous\"");
    expect_refused({.stage = stage, .gradient_accumulation_dtype = DType::kBFloat16},
                   "in fp32 or in the parameters' dtype");
    expect_refused({.stage = stage, .communication_dtype = DType::kInt32}, "fp32, bf16 or fp16");
    expect_refused({.stage = stage, .gradient_accumulation_steps = 0}, "at least one micro-batch");
  }
  expect_refused({.stage = 3}, "there are stages 0 (DDP), 1 and 2");
  expect_refused({.stage = -1}, "there are stages 0 (DDP), 1 and 2");
}

TEST(StagePlan, AllowsEverythingElse) {
  for (const int stage : kStages) {
    for (const LayoutKind layout : {LayoutKind::kBucketed, LayoutKind::kContiguous}) {
      for (const bool reduce_scatter : {true, false}) {
        for (const bool contiguous : {true, false}) {
          EngineOptions options = {.stage = stage,
                                   .layout = layout,
                                   .reduce_scatter = reduce_scatter,
                                   .contiguous_gradients = contiguous};
          EXPECT_EQ(refusal_of(options), "");
          if (!reduce_scatter) {
            options.prescale_gradients = true;
            EXPECT_EQ(refusal_of(options), "");
            options.prescale_gradients = false;
            options.gradient_predivide_factor = 3.0;
            EXPECT_EQ(refusal_of(options), "");
          }
        }
      }
    }
  }
}

/// docs/design.md 6: which dtypes gradients are kept and sent in.
TEST(StagePlan, DtypesOfGradients) {
  EngineOptions options = {.stage = 2};
  const auto plan = [&] { return StagePlan(options, DType::kBFloat16); };
  EXPECT_EQ(plan().accumulation_dtype, DType::kBFloat16);
  EXPECT_EQ(plan().communication_dtype, DType::kBFloat16);
  options.gradient_accumulation_steps = 3;
  EXPECT_EQ(plan().accumulation_dtype, DType::kFloat32);
  EXPECT_EQ(plan().communication_dtype, DType::kBFloat16);
  options.stage = 1;
  EXPECT_EQ(plan().communication_dtype, DType::kFloat32);
  options.reduce_each_micro_batch = true;
  EXPECT_EQ(plan().communication_dtype, DType::kBFloat16);
  options.communication_dtype = DType::kFloat32;
  EXPECT_EQ(plan().communication_dtype, DType::kFloat32);
  EXPECT_TRUE(plan().has_master_weights);
  EXPECT_FALSE(StagePlan().has_master_weights);
}

TEST(StagePlan, WhereGradientsAreWritten) {
  const auto memory = [](const EngineOptions& options) {
    return StagePlan(options).gradient_memory;
  };
  EXPECT_EQ(memory({.stage = 0}), GradientMemory::kView);
  EXPECT_EQ(memory({.stage = 1}), GradientMemory::kView);
  EXPECT_EQ(memory({.stage = 2}), GradientMemory::kBuffer);
  EXPECT_EQ(memory({.stage = 1, .reduce_each_micro_batch = true}), GradientMemory::kBuffer);
  for (const int stage : kStages) {
    EXPECT_EQ(memory({.stage = stage, .contiguous_gradients = false}), GradientMemory::kPacked);
    // fp32 kernels do not write bf16.
    EXPECT_EQ(memory({.stage = stage, .communication_dtype = DType::kBFloat16}),
              GradientMemory::kPacked);
  }
  // Of one micro-batch the 16-bit gradient is sent, whatever it is sent in; of several, buckets
  // hold fp32.
  EngineOptions half = {.stage = 2, .communication_dtype = DType::kFloat32};
  const auto plan = [&] { return StagePlan(half, DType::kBFloat16); };
  EXPECT_EQ(plan().gradient_memory, GradientMemory::kPacked);
  EXPECT_EQ(plan().gradient_dtype, DType::kBFloat16);
  half.gradient_accumulation_steps = 2;
  EXPECT_EQ(plan().gradient_memory, GradientMemory::kBuffer);
  EXPECT_EQ(plan().gradient_dtype, DType::kFloat32);
}

TEST(StagePlan, WhatIsPartitionedAndHowItIsReduced) {
  for (const int stage : kStages) {
    const StagePlan plan({.stage = stage, .reduce_scatter = stage != 1}, DType::kFloat32, 4);
    EXPECT_EQ(plan.partitions.optimizer_state, stage >= 1);
    EXPECT_EQ(plan.partitions.gradients, stage == 2);
    EXPECT_EQ(plan.reduces_each_micro_batch, stage == 2);
    EXPECT_EQ(plan.reduction, stage == 2 ? Reduction::kReduceScatter : Reduction::kAllReduce);
  }
  EXPECT_EQ(StagePlan({.stage = 1, .layout = LayoutKind::kContiguous}).reduction,
            Reduction::kReduceToOwner);
}

/// Before and after the sum gradients are divided by N in all.
TEST(StagePlan, DivisorsMakeTheMean) {
  const auto divisors = [](EngineOptions options) {
    options.reduce_scatter = false;
    const StagePlan plan(options, DType::kFloat32, 6);
    return std::pair(plan.divisor_before_sum, plan.divisor_after_sum);
  };
  EXPECT_EQ(divisors({}), std::pair(1.0, 6.0));
  EXPECT_EQ(divisors({.prescale_gradients = true}), std::pair(6.0, 1.0));
  EXPECT_EQ(divisors({.gradient_predivide_factor = 1.5}), std::pair(1.5, 4.0));
}

}  // namespace
}  // namespace zerolab::zero
