#include "framework/core/recorder.h"

#include <gtest/gtest.h>

namespace zerolab {
namespace {

/// A point of a device's stream that is reached when the test says so.
struct Point final : StreamTimeState {
  std::optional<Clock::time_point> time() const override { return reached; }
  std::optional<Clock::time_point> reached;
};

TEST(Recorder, KeepsASpanUntilItsEndIsReached) {
  Recorder recorder;
  const auto begin = std::make_shared<Point>();
  const auto end = std::make_shared<Point>();
  recorder.add({.kind = SpanKind::kForward, .name = "device"}, StreamTime(begin), StreamTime(end));
  const Clock::time_point now = Clock::now();
  recorder.add({.kind = SpanKind::kBackward, .name = "host"}, now, now);
  begin->reached = now;
  const std::vector<Span> first = recorder.take();
  ASSERT_EQ(first.size(), 1);
  EXPECT_EQ(first[0].name, "host");
  end->reached = now + std::chrono::milliseconds(7);
  const std::vector<Span> second = recorder.take();
  ASSERT_EQ(second.size(), 1);
  EXPECT_EQ(second[0].name, "device");
  EXPECT_EQ(second[0].milliseconds(), 7.0);
  EXPECT_TRUE(recorder.take().empty());
}

}  // namespace
}  // namespace zerolab
