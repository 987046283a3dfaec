#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

const std::vector<std::string> kLongRun = {"run.steps=100000000", "run.eval_every=0",
                                           "launch.ranks=4", "zero.stage=2",
                                           "zero.overlap_comm=true"};

/// Waits until the log has some steps; false if the program ended before.
bool has_begun(const SmallRun& run, Program& program, const std::string& log) {
  const std::string path = run.folder().path(log);
  while (program.is_running()) {
    std::error_code none;
    if (std::filesystem::file_size(path, none) > 50'000 && !none) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

class Stop : public testing::TestWithParam<int> {};

TEST_P(Stop, EndsAfterTheStepWithACompleteLog) {
  const SmallRun run;
  const auto program = run.start("train", kLongRun);
  ASSERT_TRUE(has_begun(run, *program, "runs/small/metrics.jsonl"));
  program->send(GetParam());
  const Ended ended = program->wait(20.0);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_NE(ended.out.find("stopped on request after step "), std::string::npos);
  const std::vector<nlohmann::json> log = run.log();
  EXPECT_EQ(log.back().at("event"), "summary");
  EXPECT_EQ(log.back().at("stopped"), true);
  const std::vector<nlohmann::json> steps = of_event(log, "step");
  EXPECT_EQ(log.back().at("steps"), steps.size());
  EXPECT_EQ(log.back().at("final_loss"), steps.back().at("loss"));
  EXPECT_EQ(steps.back().at("step"), steps.size());
}

TEST_P(Stop, EndsAComparison) {
  const SmallRun run;
  const auto program = run.start("compare", kLongRun);
  ASSERT_TRUE(has_begun(run, *program, "runs/small/stage-0/metrics.jsonl"));
  program->send(GetParam());
  const Ended ended = program->wait(20.0);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("no comparison"), std::string::npos);
  EXPECT_EQ(run.log("runs/small/stage-0/metrics.jsonl").back().at("stopped"), true);
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs/small/stage-1")));
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs/small/compare.json")));
}

INSTANTIATE_TEST_SUITE_P(Signals, Stop, testing::Values(SIGINT, SIGTERM));

}  // namespace
}  // namespace zerolab::test
