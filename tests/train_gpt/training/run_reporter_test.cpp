#include "apps/train_gpt/training/run_reporter.h"

#include <gtest/gtest.h>

namespace zerolab::app {
namespace {

class SeenRecords final : public RunObserver {
 public:
  void on_step(const StepRecord& record) override { steps.push_back(record); }
  void on_trace(const Trace&) override { ++traces; }

  std::vector<StepRecord> steps;
  int traces = 0;
};

RunConfig config_of(int64_t traced_steps) {
  RunConfig config;
  config.launch.ranks = 2;
  config.log.trace = traced_steps > 0;
  config.log.trace_first_step = 1;
  config.log.trace_steps = traced_steps;
  return config;
}

/// A reporter of two ranks.
struct Reported {
  explicit Reported(int64_t traced_steps = 0) : trace(config_of(traced_steps)) {}

  /// Both ranks post `step`, rank 0 with `peak` and rank 1 with one byte more, and rank 0 defers
  /// its record.
  void step(int64_t step, int64_t peak, double ms) {
    post(step, peak);
    StepRecord record;
    record.step = step;
    record.result.tokens = 100;
    record.ms.step = ms;
    reporter.defer(record);
  }

  void post(int64_t step, int64_t peak) {
    for (const int rank : {0, 1}) {
      StepMailbox::Message message;
      message.step = step;
      message.memory.total_peak = peak + rank;
      message.communication[{CollectiveOp::kReduce, Purpose::kGradient}] = {.calls = 1,
                                                                            .bytes_sent = 8};
      mailbox.post(rank, message);
    }
  }

  SeenRecords seen;
  StepMailbox mailbox{2};
  Trace trace;
  RunReporter reporter{seen, mailbox, trace, 2};
};

TEST(RunReporter, DefersAStepUntilAllRanksHavePostedIt) {
  Reported run;
  run.step(1, 50, 1.0);
  EXPECT_TRUE(run.seen.steps.empty());
  run.step(2, 70, 1.0);
  ASSERT_EQ(run.seen.steps.size(), 1);
  EXPECT_EQ(run.seen.steps[0].step, 1);
  ASSERT_EQ(run.seen.steps[0].memory.size(), 2);
  EXPECT_EQ(run.seen.steps[0].memory[0].total_peak, 50);
  EXPECT_EQ(run.seen.steps[0].memory[1].total_peak, 51);
  run.reporter.report_deferred();
  run.reporter.report_deferred();
  ASSERT_EQ(run.seen.steps.size(), 2);
  EXPECT_EQ(run.seen.steps[1].memory[1].total_peak, 71);
}

/// The first step, which warms up, counts for memory and communication only.
TEST(RunReporter, SummaryHasTheHighestMemoryAndAllCommunication) {
  Reported run;
  run.step(1, 90, 100.0);
  run.step(2, 50, 2.0);
  run.step(3, 70, 4.0);
  run.step(4, 60, 12.0);
  run.reporter.report_deferred();
  run.post(5, 0);
  run.reporter.add_late_communication(5);
  const RunSummary summary = run.reporter.finish(10);
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.last_step, 4);
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.memory[0].total_peak, 90);
  EXPECT_EQ(summary.memory[1].total_peak, 91);
  EXPECT_DOUBLE_EQ(summary.ms.step, 6.0);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 25'000.0);
  for (const int rank : {0, 1}) {
    const CommunicationLedger::Entry sum =
        total_of(summary.communication[rank], Purpose::kGradient);
    EXPECT_EQ(sum.calls, 5);
    EXPECT_EQ(sum.bytes_sent, 40);
  }
}

TEST(RunReporter, TraceIsReportedOnceWhenItsStepsHavePassed) {
  Reported run(2);
  for (const int64_t step : {1, 2, 3}) {
    run.step(step, 1, 1.0);
    EXPECT_EQ(run.seen.traces, 0);
  }
  run.reporter.report_deferred();
  EXPECT_EQ(run.seen.traces, 1);
  run.reporter.report_trace();
  EXPECT_EQ(run.seen.traces, 1);

  Reported untraced;
  untraced.step(1, 1, 1.0);
  untraced.reporter.report_deferred();
  untraced.reporter.report_trace();
  EXPECT_EQ(untraced.seen.traces, 0);
}

}  // namespace
}  // namespace zerolab::app
