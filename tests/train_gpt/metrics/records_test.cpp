#include "apps/train_gpt/metrics/records.h"

#include <gtest/gtest.h>

namespace zerolab::app {
namespace {

Span span_of(SpanKind kind, int begin_ms, int end_ms) {
  const Clock::time_point origin;
  return {.kind = kind,
          .name = "",
          .begin = origin + std::chrono::milliseconds(begin_ms),
          .end = origin + std::chrono::milliseconds(end_ms)};
}

/// Two micro-batches. Communication is exposed for 3 ms in the second backward and for 2 ms in the
/// optimizer; another 4 ms, between the phases, are nobody's.
TEST(TimesOf, ExposedTimeIsTakenOutOfThePhaseThatItLiesIn) {
  const std::vector<Span> spans = {
      span_of(SpanKind::kForward, 0, 10),      span_of(SpanKind::kBackward, 10, 30),
      span_of(SpanKind::kForward, 30, 41),     span_of(SpanKind::kBackward, 41, 62),
      span_of(SpanKind::kCommExposed, 50, 53), span_of(SpanKind::kCommExposed, 62, 66),
      span_of(SpanKind::kCommExposed, 68, 70), span_of(SpanKind::kOptimizer, 66, 73),
      span_of(SpanKind::kCommWait, 49, 50),    span_of(SpanKind::kCommTransfer, 50, 61),
      span_of(SpanKind::kModule, 0, 5),        span_of(SpanKind::kStep, 0, 75)};
  const StepTimes times = times_of(spans, 75.0);
  EXPECT_DOUBLE_EQ(times.forward, 21.0);
  EXPECT_DOUBLE_EQ(times.backward, 38.0);
  EXPECT_DOUBLE_EQ(times.optimizer, 5.0);
  EXPECT_DOUBLE_EQ(times.comm_exposed, 9.0);
  EXPECT_DOUBLE_EQ(times.comm_wait, 1.0);
  EXPECT_DOUBLE_EQ(times.comm_transfer, 11.0);
  EXPECT_DOUBLE_EQ(times.comm_hidden(), 3.0);
  EXPECT_DOUBLE_EQ(times.step, 75.0);
}

TEST(StepTimes, HiddenTimeIsNeverNegative) {
  StepTimes times;
  times.comm_exposed = 2.0;
  times.comm_transfer = 1.0;
  EXPECT_EQ(times.comm_hidden(), 0.0);
}

TEST(CommunicationEntries, AreAddedByOpAndPurpose) {
  const CommunicationLedger::Key gradients = {CollectiveOp::kReduceScatter, Purpose::kGradient};
  const CommunicationLedger::Key parameters = {CollectiveOp::kAllGather, Purpose::kParameter};
  CommunicationEntries sum = {{gradients, {1, 10, 20, 0.5, 1.0}}};
  add_entries(sum, {{gradients, {2, 30, 40, 0.25, 2.0}}, {parameters, {3, 5, 6, 7.0, 8.0}}});
  ASSERT_EQ(sum.size(), 2);
  EXPECT_EQ(sum[gradients].calls, 3);
  EXPECT_EQ(sum[gradients].bytes_sent, 40);
  EXPECT_EQ(sum[gradients].bytes_received, 60);
  EXPECT_DOUBLE_EQ(sum[gradients].wait_ms, 0.75);
  EXPECT_DOUBLE_EQ(sum[gradients].transfer_ms, 3.0);
  EXPECT_EQ(sum[parameters].calls, 3);
  EXPECT_EQ(total_of(sum, Purpose::kGradient).bytes_sent, 40);
  EXPECT_EQ(total_of(sum, Purpose::kControl).calls, 0);
}

/// Two steps of two ranks, of which the second sends twice as much.
TEST(RunSummary, MeansAreOverStepsAndRanks) {
  RunSummary summary;
  summary.steps = 2;
  for (const int64_t share : {1, 2}) {
    summary.communication.push_back(
        {{{CollectiveOp::kReduce, Purpose::kGradient}, {1, 40 * share, 0, 4.0, 8.0}},
         {{CollectiveOp::kAllReduce, Purpose::kGradient}, {1, 60 * share, 0, 0.0, 0.0}},
         {{CollectiveOp::kAllGather, Purpose::kParameter}, {1, 20 * share, 0, 0.0, 0.0}},
         {{CollectiveOp::kAllGather, Purpose::kControl}, {1, 1000, 0, 0.0, 0.0}}});
  }
  const CommunicationMean gradients = summary.communication_mean(Purpose::kGradient);
  EXPECT_DOUBLE_EQ(gradients.bytes_sent, 75.0);
  EXPECT_DOUBLE_EQ(gradients.wait_ms, 2.0);
  EXPECT_DOUBLE_EQ(gradients.transfer_ms, 4.0);
  EXPECT_DOUBLE_EQ(summary.bytes_sent_per_step(), 90.0);
}

TEST(StepRecord, TokensPerSecondOfNoTimeAreZero) {
  StepRecord record;
  record.result.tokens = 512;
  EXPECT_EQ(record.tokens_per_s(), 0.0);
  record.ms.step = 250.0;
  EXPECT_DOUBLE_EQ(record.tokens_per_s(), 2048.0);
}

}  // namespace
}  // namespace zerolab::app
