#include "apps/train_gpt/report/losses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace zerolab::app {
namespace {

TEST(LossDifference, IsRelativeAndZeroForTheSameBitsOnly) {
  EXPECT_DOUBLE_EQ(loss_difference(3.0, 2.0), 0.5);
  EXPECT_DOUBLE_EQ(loss_difference(-2.0, -4.0), 0.5);
  EXPECT_EQ(loss_difference(0.1, 0.1), 0.0);
  EXPECT_GT(loss_difference(0.0, -0.0), 0.0);
  EXPECT_GT(loss_difference(std::nextafter(1e-300, 1.0), 1e-300), 0.0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(loss_difference(nan, nan), 0.0);
  EXPECT_TRUE(std::isinf(loss_difference(nan, 1.0)));
  EXPECT_TRUE(std::isinf(loss_difference(1.0, nan)));
}

TEST(ThinnedOut, KeepsPeaksAndEnds) {
  std::vector<LoggedStep> steps;
  for (int64_t i = 1; i <= 100000; ++i) {
    steps.push_back({i, 1.0 + 1.0 / static_cast<double>(i), 1.0});
  }
  steps[54320].loss = 9.0;
  steps[76543].loss = -9.0;
  const std::vector<LoggedStep> thin = thinned_out(steps, 1000);
  EXPECT_LE(thin.size(), 1002);
  EXPECT_GE(thin.size(), 500);
  EXPECT_EQ(thin.front().step, 1);
  EXPECT_EQ(thin.back().step, 100000);
  const auto has = [&](double loss) {
    return std::ranges::any_of(thin, [&](const LoggedStep& step) { return step.loss == loss; });
  };
  EXPECT_TRUE(has(9.0));
  EXPECT_TRUE(has(-9.0));
  EXPECT_TRUE(std::ranges::is_sorted(thin, {}, &LoggedStep::step));
  EXPECT_EQ(thinned_out({steps[0], steps[1]}, 1000).size(), 2);
}

}  // namespace
}  // namespace zerolab::app
