#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

constexpr const char* kThereAndBack =
    "zero.schedule=[{step = 2, stage = 1}, {step = 3, stage = 2}, {step = 5, stage = 1}, {step = "
    "6, stage = 0}]";

std::vector<double> losses_of(const std::vector<json>& log) {
  std::vector<double> losses;
  for (const json& record : of_event(log, "step")) {
    losses.push_back(record.at("loss"));
  }
  return losses;
}

class Schedule : public testing::TestWithParam<const char*> {};

TEST_P(Schedule, SwitchesStagesWithoutChangingABit) {
  const SmallRun run;
  const std::string layout = std::string("zero.layout=") + GetParam();
  ASSERT_EQ(run.run("train", {"run.name=still", layout}).status, 0);
  const Ended ended = run.run("train", {kThereAndBack, layout, "zero.overlap_comm=true"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const std::vector<json> log = run.log();
  const std::vector<double> losses = losses_of(log);
  ASSERT_EQ(losses.size(), 6);
  EXPECT_EQ(losses, losses_of(run.log("runs/still/metrics.jsonl")));
  EXPECT_EQ(of_event(log, "eval"), of_event(run.log("runs/still/metrics.jsonl"), "eval"));
  EXPECT_NE(ended.out.find("step 3: ZeRO-1 -> ZeRO-2 in "), std::string::npos) << ended.out;
}

INSTANTIATE_TEST_SUITE_P(Layouts, Schedule, testing::Values("bucketed", "contiguous"),
                         [](const auto& info) { return std::string(info.param); });

TEST(ScheduleLog, ShowsMemoryFallAndRise) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {kThereAndBack}).status, 0);
  const std::vector<json> log = run.log();
  const std::vector<json> stages = of_event(log, "stage");
  ASSERT_EQ(stages.size(), 4);
  const int expected[][3] = {{2, 0, 1}, {3, 1, 2}, {5, 2, 1}, {6, 1, 0}};
  const int64_t flat = log.at(1).at("state_bytes").at("parameters").at("bytes");
  for (size_t i = 0; i < stages.size(); ++i) {
    EXPECT_EQ(stages[i].at("step"), expected[i][0]);
    EXPECT_EQ(stages[i].at("from"), expected[i][1]);
    EXPECT_EQ(stages[i].at("to"), expected[i][2]);
    EXPECT_GE(stages[i].at("ms"), 0.0);
    ASSERT_EQ(stages[i].at("memory").size(), 2);
    for (const json& rank : stages[i].at("memory")) {
      const auto check = [&](const json& bytes, int stage) {
        EXPECT_EQ(bytes.at("parameters"), flat);
        EXPECT_EQ(bytes.at("gradients"), stage == 2 ? flat / 2 : flat);
        EXPECT_EQ(bytes.at("optimizer_state"), stage == 0 ? 2 * flat : flat);
      };
      check(rank.at("before"), expected[i][1]);
      check(rank.at("after"), expected[i][2]);
      EXPECT_EQ(rank.at("before").at("total").get<int64_t>() <
                    rank.at("after").at("total").get<int64_t>(),
                expected[i][1] > expected[i][2]);
      EXPECT_GE(rank.at("peak"),
                std::max(rank.at("before").at("total"), rank.at("after").at("total")));
    }
  }
  // Each stands between the steps that it parts.
  for (size_t i = 1; i < log.size(); ++i) {
    if (log[i].at("event") == "stage") {
      EXPECT_EQ(log[i + 1].at("step"), log[i].at("step"));
      EXPECT_EQ(log[i + 1].at("event"), "step");
    }
  }
  EXPECT_EQ(log.back().at("stage"), 0);
}

TEST(ScheduleLog, LoggedScheduleRunsAgain) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {kThereAndBack}).status, 0);
  const json schedule = run.log().front().at("config").at("zero.schedule");
  EXPECT_EQ(schedule.size(), 4);
  ASSERT_EQ(run.run("train", {"run.name=again", "zero.schedule=" + schedule.dump()}).status, 0);
  EXPECT_EQ(of_event(run.log("runs/again/metrics.jsonl"), "stage").size(), 4);
}

TEST(ScheduleLog, AStageThatWillNotFitIsRefusedBeforeAnythingIsWritten) {
  const SmallRun run;
  const auto peak = [&](const char* stage) {
    const std::string name = std::string("stage-") + stage;
    EXPECT_EQ(run.run("train", {"run.name=" + name, std::string("zero.stage=") + stage}).status, 0);
    const json summary = run.log("runs/" + name + "/metrics.jsonl").back();
    return summary.at("memory")[0].at("total").at("peak").get<int64_t>();
  };
  const std::string limit = std::to_string((peak("0") + peak("2")) / 2);
  const std::vector<std::string> fits = {"zero.stage=2", "launch.memory_limit=" + limit};
  EXPECT_EQ(run.run("train", fits).status, 0);
  std::vector<std::string> grows = fits;
  grows.insert(grows.end(), {"run.name=grows", "zero.schedule=[{step = 4, stage = 0}]"});
  const Ended ended = run.run("train", grows);
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("does not fit"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs/grows")));
}

TEST(ScheduleLog, CompareRefusesASchedule) {
  const SmallRun run;
  const Ended ended = run.run("compare", {kThereAndBack});
  EXPECT_EQ(ended.status, 2);
  EXPECT_NE(ended.err.find("--set zero.schedule: compare sets the stage"), std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace zerolab::test
