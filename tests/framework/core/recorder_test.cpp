#include "framework/core/recorder.h"

#include <gtest/gtest.h>

#include "framework/nn/linear.h"
#include "framework/ops/elementwise.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

/// A point of a device's stream that is reached when the test says so.
struct Point final : StreamTimeState {
  std::optional<Clock::time_point> time() const override { return reached; }
  std::optional<Clock::time_point> reached;
};

/// Names in the order of their ends.
std::vector<std::string> modules_of(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) {
    EXPECT_EQ(span.kind, SpanKind::kModule);
    names.push_back(span.name);
  }
  return names;
}

TEST(ModuleScope, IsASpanForwardAndBackwardWhileTraced) {
  TestRank rank;
  const nn::Linear first({rank.context, 1, DType::kFloat32, "block.first"}, 2, 2, true, 1.0);
  const nn::Linear second({rank.context, 1, DType::kFloat32, "block.second"}, 2, 2, true, 1.0);
  const Tensor x = rank.normal({3, 2}, DType::kFloat32, "x");
  const auto run = [&] {
    const ModuleScope block(rank.context, "block");
    return second.forward(ops::relu(first.forward(x)));
  };
  const Tensor y = run();
  autograd::backward(y, rank.ones_like(y));
  EXPECT_TRUE(rank.context.recorder().take().empty());

  rank.context.set_traced(true);
  const Tensor z = run();
  EXPECT_EQ(rank.context.module(), nullptr);
  EXPECT_EQ(modules_of(rank.context.recorder().take()),
            (std::vector<std::string>{"block.first", "block.second", "block"}));
  autograd::backward(z, rank.ones_like(z));
  const std::vector<Span> spans = rank.context.recorder().take();
  ASSERT_EQ(modules_of(spans), (std::vector<std::string>{"block.second", "block.first", "block"}));
  EXPECT_LE(spans[2].begin, spans[0].begin);
  EXPECT_LE(spans[0].end, spans[1].begin);
  EXPECT_LE(spans[1].end, spans[2].end);
}

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
