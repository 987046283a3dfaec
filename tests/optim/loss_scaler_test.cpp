#include "optim/loss_scaler.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace zerolab::optim {
namespace {

TEST(LossScaler, AStaticScaleStays) {
  LossScaler scaler({.initial = 128.0});
  for (int i = 0; i < 5; ++i) {
    scaler.update(i % 2 == 0);
    EXPECT_EQ(scaler.scale(), 128.0);
    EXPECT_FALSE(scaler.exhausted());
  }
}

TEST(LossScaler, StartsAtTwoToTheSixteenthAndHalvesAtTheSecondOverflow) {
  LossScaler scaler(dynamic_loss_scale());
  EXPECT_EQ(scaler.scale(), 65536.0);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 65536.0);  // hysteresis 2: the first is forgiven
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 32768.0);
  scaler.update(true);  // nothing is forgiven again before a window without overflow
  EXPECT_EQ(scaler.scale(), 16384.0);
}

TEST(LossScaler, DoublesAfterAWindowWithoutOverflowAndForgivesAgain) {
  LossScaler scaler({.dynamic = true, .initial = 8.0, .window = 3, .hysteresis = 2});
  scaler.update(true);
  scaler.update(false);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 8.0);
  scaler.update(false);
  EXPECT_EQ(scaler.scale(), 16.0);
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 16.0);
  scaler.update(false);
  scaler.update(false);
  scaler.update(true);  // the window starts again at an overflow
  EXPECT_EQ(scaler.scale(), 8.0);
  for (int i = 0; i < 6; ++i) {
    scaler.update(false);
  }
  EXPECT_EQ(scaler.scale(), 32.0);
}

TEST(LossScaler, IsExhaustedAtTheMinimum) {
  LossScaler scaler({.dynamic = true, .initial = 4.0, .hysteresis = 1, .minimum = 2.0});
  EXPECT_FALSE(scaler.exhausted());
  scaler.update(true);
  EXPECT_EQ(scaler.scale(), 2.0);
  EXPECT_TRUE(scaler.exhausted());
}

TEST(LossScaler, RefusesNonsense) {
  EXPECT_THROW(LossScaler({.initial = 0.0}), ConfigError);
  EXPECT_THROW(LossScaler({.dynamic = true, .window = 0}), ConfigError);
  EXPECT_THROW(LossScaler({.dynamic = true, .hysteresis = 0}), ConfigError);
  EXPECT_THROW(LossScaler({.dynamic = true, .minimum = -1.0}), ConfigError);
}

}  // namespace
}  // namespace zerolab::optim
