#include "apps/train_gpt/terminal/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zerolab::app {
namespace {

TEST(History, KeepsTheValuesAsLongAsTheyAreFew) {
  History history;
  EXPECT_TRUE(history.points().empty());
  for (const double value : {5.0, 3.0, 4.0}) {
    history.add(value);
  }
  EXPECT_EQ(history.points(), (std::vector<double>{5.0, 3.0, 4.0}));
}

TEST(History, KeepsMeansInBoundedMemory) {
  constexpr int kValues = 100'000;
  History history;
  for (int i = 0; i < kValues; ++i) {
    history.add(i);
    ASSERT_LE(history.points().size(), History::kMaxPoints);
  }
  // 100,000 / 512 takes means of 256 values, the last of the 160 that remain.
  const std::vector<double> points = history.points();
  ASSERT_EQ(points.size(), 391);
  EXPECT_EQ(points.front(), 127.5);
  EXPECT_EQ(points[389], 389 * 256 + 127.5);
  EXPECT_EQ(points.back(), kValues - 160 + 79.5);
}

TEST(Sparkline, GoesFromTheLeastToTheGreatest) {
  const std::vector<double> falling = {7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_EQ(sparkline(falling, 8, true), "█▇▆▅▄▃▂▁");
  EXPECT_EQ(sparkline(falling, 20, false), "#*+=:-._");
}

TEST(Sparkline, TakesMeansWhereThereIsLittleRoom) {
  const std::vector<double> points = {0, 2, 4, 6, 7, 8, 9};
  EXPECT_EQ(sparkline(points, 3, false), "_=#");  // of 1, 5 and 8
  EXPECT_EQ(sparkline(points, 0, false), "");
  EXPECT_EQ(sparkline(points, -5, false), "");
  EXPECT_EQ(sparkline({}, 5, true), "");
}

TEST(Sparkline, IsLowWhereNothingChangesAndMarksWhatIsNotFinite) {
  const std::vector<double> flat = {3, 3, 3};
  EXPECT_EQ(sparkline(flat, 5, true), "▁▁▁");
  const std::vector<double> broken = {4, std::nan(""), 0, INFINITY};
  EXPECT_EQ(sparkline(broken, 5, false), "#!_!");
  const std::vector<double> nothing = {std::nan("")};
  EXPECT_EQ(sparkline(nothing, 5, true), "!");
}

}  // namespace
}  // namespace zerolab::app
