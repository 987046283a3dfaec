#include "framework/memory/ledger.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

constexpr DType kFloat = DType::kFloat32;

TEST(MemoryLedger, CountsByCategoryAndRemembersPeaks) {
  TestRank rank;
  Tensor a;
  {
    const CategoryScope scope(rank.context, Category::kParameters);
    a = Tensor::empty(rank.context, {10}, kFloat);
  }
  {
    const Tensor b = Tensor::empty(rank.context, {100}, DType::kFloat64);
    const Tensor view = b.range(3, 5);
    const CategoryScope scope(rank.context, Category::kLogits);
    const Tensor c = Tensor::empty(rank.context, {1}, kFloat);
  }
  const CategoryScope scope(rank.context, Category::kLogits);
  const Tensor d = Tensor::empty(rank.context, {50}, kFloat);
  const auto bytes = rank.context.ledger().snapshot();
  EXPECT_EQ(bytes.total, 240);
  EXPECT_EQ(bytes.total_peak, 844);
  EXPECT_EQ(bytes.current_of(Category::kParameters), 40);
  EXPECT_EQ(bytes.current_of(Category::kActivations), 0);
  EXPECT_EQ(bytes.peak_of(Category::kActivations), 800);
  EXPECT_EQ(bytes.peak_of(Category::kLogits), 200);
  EXPECT_EQ(bytes.at_total_peak_of(Category::kLogits), 4);
  rank.context.ledger().reset_peaks();
  EXPECT_EQ(rank.context.ledger().snapshot().total_peak, 240);
}

TEST(MemoryLedger, RefusesWhatPassesTheLimit) {
  TestRank rank({.memory_limit = 1000});
  const Tensor a = Tensor::empty(rank.context, {200}, kFloat);
  const CategoryScope scope(rank.context, Category::kOptimizerState);
  try {
    Tensor::empty(rank.context, {3, 17}, kFloat);
    FAIL() << "204 bytes were given beside 800 of 1000";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const char* part :
         {"204 bytes", "optimizer_state", "[3, 17]", "fp32", "800", "1000", "activations"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
    }
  }
  EXPECT_EQ(rank.context.ledger().snapshot().total, 800);
  EXPECT_EQ(Tensor::empty(rank.context, {50}, kFloat).bytes(), 200);
}

TEST(MemoryLedger, TimelineHoldsSamplesUntilCleared) {
  TestRank rank;
  const Tensor a = Tensor::empty(rank.context, {4}, kFloat);
  rank.context.ledger().sample("forward");
  const auto timeline = rank.context.ledger().timeline();
  ASSERT_EQ(timeline.size(), 1U);
  EXPECT_EQ(timeline[0].phase, "forward");
  EXPECT_EQ(timeline[0].current[static_cast<int>(Category::kActivations)], 16);
  rank.context.ledger().clear_timeline();
  EXPECT_TRUE(rank.context.ledger().timeline().empty());
  for (size_t i = 0; i < MemoryLedger::kMaxSamples + 5; ++i) {
    rank.context.ledger().sample("bucket");
  }
  EXPECT_EQ(rank.context.ledger().timeline().size(), MemoryLedger::kMaxSamples);
}

TEST(MemoryLedger, FollowsEachChangeWhileAsked) {
  TestRank rank;
  MemoryLedger& ledger = rank.context.ledger();
  const Tensor before = Tensor::empty(rank.context, {4}, kFloat);
  ledger.follow(true);
  { const Tensor inside = Tensor::empty(rank.context, {2}, kFloat); }
  ledger.follow(false);
  const Tensor after = Tensor::empty(rank.context, {8}, kFloat);
  const auto timeline = ledger.timeline();
  ASSERT_EQ(timeline.size(), 2U);
  EXPECT_EQ(timeline[0].phase, "");
  EXPECT_EQ(timeline[0].current[static_cast<int>(Category::kActivations)], 24);
  EXPECT_EQ(timeline[1].current[static_cast<int>(Category::kActivations)], 16);
  EXPECT_LE(timeline[0].time, timeline[1].time);
}

}  // namespace
}  // namespace zerolab
