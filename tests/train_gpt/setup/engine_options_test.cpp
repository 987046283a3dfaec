#include "apps/train_gpt/setup/engine_options.h"

#include <gtest/gtest.h>

#include "apps/train_gpt/setup/resolve_config.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {
namespace {

zero::EngineOptions options_of(const std::vector<std::string>& overrides) {
  return engine_options(resolved(overrides));
}

TEST(EngineOptions, FollowTheConfiguration) {
  const zero::EngineOptions options =
      options_of({"zero.stage=1", "zero.layout=contiguous", "zero.reduce_scatter=false",
                  "zero.reduce_bucket_size=1000", "zero.allgather_bucket_size=2000",
                  "zero.contiguous_gradients=false", "zero.overlap_comm=true",
                  "zero.gradient_predivide_factor=2", "zero.communication_dtype=bf16",
                  "zero.gradient_accumulation_dtype=fp32", "zero.reduce_each_micro_batch=true",
                  "train.gradient_accumulation_steps=3", "optimizer.gradient_clipping=0.5",
                  "train.max_skipped_steps=7"});
  EXPECT_EQ(options.stage, 1);
  EXPECT_EQ(options.layout, zero::LayoutKind::kContiguous);
  EXPECT_FALSE(options.reduce_scatter);
  EXPECT_EQ(options.reduce_bucket_size, 1000);
  EXPECT_EQ(options.allgather_bucket_size, 2000);
  EXPECT_FALSE(options.contiguous_gradients);
  EXPECT_TRUE(options.overlap_comm);
  EXPECT_FALSE(options.prescale_gradients);
  EXPECT_EQ(options.gradient_predivide_factor, 2.0);
  EXPECT_EQ(options.communication_dtype, DType::kBFloat16);
  EXPECT_EQ(options.gradient_accumulation_dtype, DType::kFloat32);
  EXPECT_TRUE(options.reduce_each_micro_batch);
  EXPECT_EQ(options.gradient_accumulation_steps, 3);
  EXPECT_EQ(options.gradient_clipping, 0.5);
  EXPECT_EQ(options.max_skipped_steps, 7);
  const zero::DebugOptions debug =
      debug_options(resolved({"debug.poison=true", "debug.hash_every=4"}));
  EXPECT_TRUE(debug.poison);
  EXPECT_EQ(debug.hash_every, 4);
  EXPECT_EQ(parameter_dtype(resolved({})), DType::kFloat32);
  EXPECT_FALSE(options_of({}).communication_dtype.has_value());
  EXPECT_TRUE(
      options_of({"zero.reduce_scatter=false", "zero.prescale_gradients=true"}).prescale_gradients);
}

TEST(EngineOptions, PrecisionDecidesTypesAndLossScale) {
  EXPECT_EQ(parameter_dtype(resolved({"train.precision=bf16"})), DType::kBFloat16);
  const optim::LossScaleOptions fp16 = options_of({"train.precision=fp16"}).loss_scale;
  EXPECT_TRUE(fp16.dynamic);
  EXPECT_EQ(fp16.initial, 65536.0);
  EXPECT_EQ(fp16.window, 1000);
  EXPECT_EQ(fp16.hysteresis, 2);
  EXPECT_EQ(fp16.minimum, 1.0);
  for (const char* precision : {"train.precision=fp32", "train.precision=bf16"}) {
    const optim::LossScaleOptions scale = options_of({precision}).loss_scale;
    EXPECT_FALSE(scale.dynamic);
    EXPECT_EQ(scale.initial, 1.0);
  }
  const optim::LossScaleOptions given =
      options_of({"train.precision=bf16", "loss_scale.mode=dynamic", "loss_scale.initial=128",
                  "loss_scale.window=5", "loss_scale.hysteresis=1", "loss_scale.min=0.25"})
          .loss_scale;
  EXPECT_TRUE(given.dynamic);
  EXPECT_EQ(given.initial, 128.0);
  EXPECT_EQ(given.window, 5);
  EXPECT_EQ(given.hysteresis, 1);
  EXPECT_EQ(given.minimum, 0.25);
  EXPECT_EQ(options_of({"train.precision=fp16", "loss_scale.mode=static"}).loss_scale.initial, 1.0);
}

TEST(EngineOptions, RefusesALossScaleThatCannotWork) {
  EXPECT_EQ(error_with({"loss_scale.mode=dynamic"}),
            "[config] --set loss_scale.mode: loss_scale.mode; got \"dynamic\" with train.precision "
            "\"fp32\", expected \"static\" or \"auto\": an overflow in fp32 is a fault that a "
            "smaller scale would hide");
  EXPECT_EQ(error_with({"train.precision=fp16", "loss_scale.initial=2", "loss_scale.min=4"}),
            "[config] --set loss_scale.min: loss_scale.min; got 4, expected at most initial 2");
}

TEST(EngineOptions, WhatTheEngineRefusesIsToldWithItsPlace) {
  RunConfig config = parse_config(
      "[data]\npath = \"/dev/null\"\n[zero]\nlayout = \"bucketed\"\nallgather_bucket_size = 5\n",
      "demo.toml");
  try {
    resolve(config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] demo.toml:5: [zero] zero.allgather_bucket_size with layout = "
                 "\"bucketed\" is refused: there each bucket is gathered at once; set zero.layout "
                 "= \"contiguous\" or drop it");
  }
  EXPECT_EQ(error_with({"zero.gradient_predivide_factor=2", "zero.stage=1"})
                .rfind("[config] --set zero.gradient_predivide_factor: [zero] ", 0),
            0u);
  EXPECT_EQ(error_with({"zero.prescale_gradients=true", "zero.gradient_predivide_factor=2",
                        "zero.reduce_scatter=false"})
                .rfind("[config] --set zero.prescale_gradients: [zero] ", 0),
            0u);
  EXPECT_EQ(error_with({"zero.gradient_accumulation_dtype=bf16", "train.precision=fp16"})
                .rfind("[config] --set zero.gradient_accumulation_dtype: [zero] ", 0),
            0u);
  EXPECT_EQ(error_with({"zero.gradient_accumulation_dtype=bf16", "train.precision=bf16"}),
            "no error");
}

TEST(EngineOptions, AnotherConfigurationHasAnotherHash) {
  const uint64_t hash = configuration_hash(resolved({}));
  EXPECT_EQ(configuration_hash(resolved({})), hash);
  EXPECT_NE(configuration_hash(resolved({"model.dropout=0.1"})),
            hash);  // nothing of the engine's own
}

}  // namespace
}  // namespace zerolab::app
