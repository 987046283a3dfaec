#include "apps/train_mlp/spirals.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace zerolab::app {
namespace {

void ignore(const SpiralReport&) {}

class Spirals : public testing::TestWithParam<int> {};

TEST_P(Spirals, AreLearntUnderEveryStageWithTheSameBits) {
  SpiralOptions options;
  options.ranks = GetParam();
  options.stage = 0;
  const SpiralResult expected = train_spirals(options, ignore);
  EXPECT_GT(expected.accuracy, 0.99);
  EXPECT_LT(expected.losses.back(), 0.1 * expected.losses.front());
  for (const int stage : {1, 2}) {
    options.stage = stage;
    options.overlap_comm = stage == 2;
    const SpiralResult result = train_spirals(options, ignore);
    EXPECT_EQ(result.losses, expected.losses) << "stage " << stage;
    EXPECT_EQ(result.weights, expected.weights) << "stage " << stage;
    EXPECT_EQ(result.accuracy, expected.accuracy) << "stage " << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Spirals, testing::Values(1, 4));

TEST(SpiralOptions, AreReportedAtTheirInterval) {
  std::vector<int64_t> steps;
  SpiralOptions options;
  options.steps = 5;
  options.report_every = 2;
  train_spirals(options, [&](const SpiralReport& report) { steps.push_back(report.step); });
  EXPECT_EQ(steps, (std::vector<int64_t>{2, 4, 5}));
}

TEST(SpiralOptions, AreRefusedWhereTheyCannotBe) {
  const auto refused = [](auto change) {
    SpiralOptions options;
    change(options);
    EXPECT_THROW(train_spirals(options, ignore), ConfigError);
  };
  refused([](SpiralOptions& options) { options.stage = 3; });
  refused([](SpiralOptions& options) { options.ranks = 0; });
  refused([](SpiralOptions& options) { options.ranks = 3; });  // 256 points do not divide
  refused([](SpiralOptions& options) { options.steps = 0; });
  refused([](SpiralOptions& options) { options.report_every = 0; });
  refused([](SpiralOptions& options) { options.backend = "cuda"; });
}

}  // namespace
}  // namespace zerolab::app
