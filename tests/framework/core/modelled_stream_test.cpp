#include "framework/core/modelled_stream.h"

#include <gtest/gtest.h>

namespace zerolab {
namespace {

using std::chrono::milliseconds;

Clock::duration time_of(Stream& stream) { return stream.time().get()->time_since_epoch(); }

TEST(ModelledStream, WaitsUntilTheEventsTime) {
  const std::unique_ptr<RankStreams> streams = make_modelled_streams();
  auto& compute = static_cast<ModelledStream&>(streams->compute());
  auto& communication = static_cast<ModelledStream&>(streams->communication());
  compute.advance(milliseconds(3));
  communication.wait(compute.record());
  communication.advance(milliseconds(10));
  const Event done = communication.record();
  compute.advance(milliseconds(4));
  EXPECT_EQ(time_of(compute), milliseconds(7));
  compute.wait(done);
  EXPECT_EQ(time_of(compute), milliseconds(13));
  compute.advance(milliseconds(1));
  compute.wait(done);  // long past
  compute.wait(Event());
  EXPECT_EQ(time_of(compute), milliseconds(14));
  EXPECT_EQ(time_of(communication), milliseconds(13));
}

TEST(ModelledStream, NeverOverflows) {
  ModelledStream stream;
  for (int i = 0; i < 3; ++i) {
    stream.advance(Clock::duration::max() / 2);
  }
  EXPECT_EQ(stream.now(), Clock::time_point::max());
}

}  // namespace
}  // namespace zerolab
