#include "framework/cuda/cuda_stream.h"

#include <gtest/gtest.h>

#include "tests/cuda/both.h"

namespace zerolab {
namespace {

TEST(CudaStream, SpansHaveTheDevicesTimes) {
  set_device_seed(1);
  CudaRank rank;
  Recorder& recorder = rank.context.recorder();
  const Tensor numbers = Tensor::empty(rank.context, Shape{1000}, DType::kFloat32);
  const Clock::time_point before = Clock::now();
  {
    const ScopedSpan outer = rank.context.span(SpanKind::kBackward, "outer");
    const ScopedSpan inner = rank.context.span(SpanKind::kCommExposed, "inner", 3);
    rank.backend->fill(rank.stream, numbers, 1.0);
  }
  rank.stream.synchronize();
  const Clock::time_point after = Clock::now();
  const std::vector<Span> spans = recorder.take();
  ASSERT_EQ(spans.size(), 2);
  const Span& inner = spans[0];
  const Span& outer = spans[1];
  EXPECT_EQ(inner.name, "inner");
  EXPECT_EQ(inner.bucket, 3);
  EXPECT_EQ(outer.kind, SpanKind::kBackward);
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
  // The clocks of host and device are compared once, when the stream passes the first point.
  EXPECT_GE(outer.begin, before);
  EXPECT_LE(outer.end, after + std::chrono::milliseconds(10));
  EXPECT_TRUE(recorder.take().empty());
}

}  // namespace
}  // namespace zerolab
