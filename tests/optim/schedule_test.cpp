#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace zerolab::optim {
namespace {

/// Expected values: torch.optim.lr_scheduler's CosineAnnealingLR and LinearLR, after a LinearLR
/// warm-up of four steps where there is one.
void expect(const ScheduleOptions& options, const std::vector<double>& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(learning_rate(options, static_cast<int64_t>(step)), expected[step], 1e-12)
        << options.name << ", step " << step;
  }
}

ScheduleOptions make(const char* name, int64_t warmup_steps, int64_t total_steps) {
  return {.name = name,
          .warmup_steps = warmup_steps,
          .total_steps = total_steps,
          .learning_rate = 0.4,
          .min_learning_rate = 0.04};
}

TEST(Schedule, CosineIsPyTorchs) {
  expect(make("cosine", 0, 8), {0.4, 0.386298315852, 0.347279220614, 0.288883017826, 0.22,
                                0.151116982174, 0.0927207793864, 0.053701684148, 0.04});
  expect(make("cosine", 4, 10),
         {0.1, 0.2, 0.3, 0.4, 0.4, 0.375884572681, 0.31, 0.22, 0.13, 0.0641154273188, 0.04});
}

TEST(Schedule, LinearIsPyTorchs) {
  expect(make("linear", 0, 8), {0.4, 0.355, 0.31, 0.265, 0.22, 0.175, 0.13, 0.085, 0.04, 0.04});
  expect(make("linear", 4, 10), {0.1, 0.2, 0.3, 0.4, 0.4, 0.34, 0.28, 0.22, 0.16, 0.1, 0.04, 0.04});
}

TEST(Schedule, ConstantStaysAfterTheWarmUp) {
  expect(make("constant", 0, 8), {0.4, 0.4, 0.4});
  expect(make("constant", 4, 8), {0.1, 0.2, 0.3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4});
}

TEST(Schedule, KeepsTheMinimumAfterItsEnd) {
  expect(make("cosine", 0, 2), {0.4, 0.22, 0.04, 0.04, 0.04});
}

TEST(Schedule, MayBeAllWarmUp) {
  expect(make("cosine", 4, 4), {0.1, 0.2, 0.3, 0.4});
  expect(make("linear", 1, 1), {0.4});
}

}  // namespace
}  // namespace zerolab::optim
