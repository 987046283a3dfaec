#include "zero/options.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace zerolab::zero {
namespace {

std::string refusal_of(const EngineOptions& options) {
  try {
    options.check();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// Every combination is either legal or refused with its reason: docs/faults.md 20, the half that
/// is a table.
TEST(EngineOptions, RefusesWhatNoEngineCouldHonour) {
  const auto expect_refused = [](const EngineOptions& options, const std::string& reason) {
    EXPECT_NE(refusal_of(options).find(reason), std::string::npos) << refusal_of(options);
  };
  for (const int stage : {0, 1, 2}) {
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

TEST(EngineOptions, AllowsEverythingElse) {
  for (const int stage : {0, 1, 2}) {
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
TEST(EngineOptions, DtypesOfGradients) {
  EngineOptions options = {.stage = 2, .parameter_dtype = DType::kBFloat16};
  EXPECT_EQ(options.accumulation_type(), DType::kBFloat16);
  EXPECT_EQ(options.communication_type(), DType::kBFloat16);
  options.gradient_accumulation_steps = 3;
  EXPECT_EQ(options.accumulation_type(), DType::kFloat32);
  EXPECT_EQ(options.communication_type(), DType::kBFloat16);
  options.stage = 1;
  EXPECT_EQ(options.communication_type(), DType::kFloat32);
  options.reduce_each_micro_batch = true;
  EXPECT_EQ(options.communication_type(), DType::kBFloat16);
  options.communication_dtype = DType::kFloat32;
  EXPECT_EQ(options.communication_type(), DType::kFloat32);
  EXPECT_TRUE(options.has_master_weights());
  EXPECT_FALSE(EngineOptions{}.has_master_weights());
}

TEST(EngineOptions, WhereGradientsAreWritten) {
  EXPECT_EQ((EngineOptions{.stage = 0}).gradient_memory(), GradientMemory::kView);
  EXPECT_EQ((EngineOptions{.stage = 1}).gradient_memory(), GradientMemory::kView);
  EXPECT_EQ((EngineOptions{.stage = 2}).gradient_memory(), GradientMemory::kBuffer);
  EXPECT_EQ((EngineOptions{.stage = 1, .reduce_each_micro_batch = true}).gradient_memory(),
            GradientMemory::kBuffer);
  for (const int stage : {0, 1, 2}) {
    EXPECT_EQ((EngineOptions{.stage = stage, .contiguous_gradients = false}).gradient_memory(),
              GradientMemory::kPacked);
    // fp32 kernels do not write bf16.
    EXPECT_EQ(
        (EngineOptions{.stage = stage, .communication_dtype = DType::kBFloat16}).gradient_memory(),
        GradientMemory::kPacked);
  }
  // Of one micro-batch the 16-bit gradient is sent, whatever it is sent in; of several, buckets
  // hold fp32.
  EngineOptions half = {
      .stage = 2, .communication_dtype = DType::kFloat32, .parameter_dtype = DType::kBFloat16};
  EXPECT_EQ(half.gradient_memory(), GradientMemory::kPacked);
  EXPECT_EQ(half.gradient_type(), DType::kBFloat16);
  half.gradient_accumulation_steps = 2;
  EXPECT_EQ(half.gradient_memory(), GradientMemory::kBuffer);
  EXPECT_EQ(half.gradient_type(), DType::kFloat32);
}

TEST(EngineOptions, HashTellsOptionsApart) {
  const uint64_t hash = EngineOptions{}.hash();
  EXPECT_EQ(hash, EngineOptions{}.hash());
  EXPECT_NE(hash, EngineOptions{.stage = 1}.hash());
  EXPECT_NE(hash, EngineOptions{.overlap_comm = true}.hash());
  EXPECT_NE(hash, EngineOptions{.communication_dtype = DType::kBFloat16}.hash());
  EXPECT_NE(hash, EngineOptions{.gradient_clipping = 0.5}.hash());
  EXPECT_NE(hash, (EngineOptions{.loss_scale = {.initial = 2.0}}).hash());
  EXPECT_NE(hash, EngineOptions{.configuration_hash = 1}.hash());
}

}  // namespace
}  // namespace zerolab::zero
