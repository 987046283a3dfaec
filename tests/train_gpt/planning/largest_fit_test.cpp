#include "apps/train_gpt/planning/largest_fit.h"

#include <gtest/gtest.h>

#include "apps/train_gpt/planning/prediction.h"
#include "apps/train_gpt/setup/launch.h"
#include "framework/tensor/backend.h"
#include "tests/train_gpt/planning/small_model.h"

namespace zerolab::app {
namespace {

TEST(LargestThatFits, IsTheLastThatFitsOnEveryCurve) {
  const std::vector<std::function<int64_t(int64_t)>> curves = {
      [](int64_t x) { return 1000 + 17 * x; }, [](int64_t x) { return x * x; },
      [](int64_t x) { return (x + 9) / 10 * 10; },
      [](int64_t x) { return x < 500 ? x : 1'000'000 + x; },
      [](int64_t x) { return std::min<int64_t>(x, 300); }};
  for (size_t curve = 0; curve < curves.size(); ++curve) {
    for (const int64_t limit : {1, 2, 1000}) {
      for (const int64_t memory : {0, 1, 250, 1016, 1017, 1034, 5000, 1'000'000, 10'000'000}) {
        int64_t expected = 0;
        while (expected < limit && curves[curve](expected + 1) <= memory) {
          ++expected;
        }
        EXPECT_EQ(largest_that_fits(curves[curve], memory, limit), expected)
            << "curve " << curve << ", " << memory << " within " << limit;
      }
    }
  }
}

TEST(LargestThatFits, NeedsFewProbesOnALine) {
  int calls = 0;
  const auto line = [&calls](int64_t x) {
    ++calls;
    return 12'345 + 678 * x;
  };
  EXPECT_EQ(largest_that_fits(line, 12'345 + 678 * 543'210 + 677, 1'000'000), 543'210);
  EXPECT_LE(calls, 5);
}

/// One sample or one layer more than the largest does not fit.
TEST(LargestFit, BatchAndModelAreTheLargest) {
  const SmallModel model;
  DeviceModel device;
  device.memory = 3'000'000;
  const RunConfig config = with_ranks(model.config({"zero.stage=2"}), 5);
  const std::unique_ptr<Backend> backend = make_backend(config);
  const auto peak = [&](int64_t samples, int64_t layers) {
    RunConfig scaled = config;
    scaled.train.micro_batch_size = samples;
    scaled.model.n_layer = layers;
    return predict(scaled, 256, *backend, device).peak();
  };
  const LargestFit batch = largest_micro_batch(config, 256, *backend, device);
  EXPECT_LE(peak(batch.value, 2), device.memory);
  EXPECT_GT(peak(batch.value + 1, 2), device.memory);
  const LargestFit largest = largest_model(config, 256, *backend, device);
  EXPECT_LE(peak(2, largest.value), device.memory);
  EXPECT_GT(peak(2, largest.value + 1), device.memory);
  EXPECT_GT(largest.num_params, 100'000);
  EXPECT_FALSE(largest.more_fits);
  device.memory = 1000;
  EXPECT_EQ(largest_micro_batch(config, 256, *backend, device).value, 0);
}

}  // namespace
}  // namespace zerolab::app
