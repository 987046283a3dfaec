#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/cli/program.h"
#include "tests/train_gpt/metrics/event_reader.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

constexpr const char* kEvents = "runs/small/events.out.tfevents.zerolab";

TEST(TensorBoard, HasTheNumbersOfTheLog) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"log.tensorboard=true", "zero.stage=2"}).status, 0);
  const std::vector<ReadEvent> events = EventReader(read_file(run.folder().path(kEvents))).all();
  std::vector<ReadEvent> steps;
  std::vector<float> evaluations;
  for (const ReadEvent& event : events) {
    if (event.scalars.contains("loss/eval")) {
      evaluations.push_back(event.scalars.at("loss/eval"));
    } else if (!event.scalars.empty()) {
      steps.push_back(event);
    }
  }
  const std::vector<json> log = run.log();
  const std::vector<json> records = of_event(log, "step");
  ASSERT_EQ(steps.size(), records.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const json& record = records[i];
    std::map<std::string, float> expected = {{"loss/train", record.at("loss")},
                                             {"grad_norm", record.at("grad_norm")},
                                             {"lr", record.at("lr")},
                                             {"tokens_per_s", record.at("tokens_per_s")}};
    for (const json& rank : record.at("memory")) {
      for (const auto& [category, bytes] : rank.items()) {
        float& highest = expected["memory/" + category];
        highest = std::max(highest, bytes.at("peak").get<float>());
      }
    }
    for (const auto& [key, entry] : record.at("comm").at("all_ranks").items()) {
      expected["bytes_sent/" + key.substr(key.find(' ') + 1)] +=
          entry.at("bytes_sent").get<float>();
    }
    EXPECT_EQ(steps[i].step, record.at("step"));
    EXPECT_EQ(steps[i].scalars, expected);
  }
  std::vector<float> losses;
  for (const json& evaluation : of_event(log, "eval")) {
    losses.push_back(evaluation.at("loss"));
  }
  EXPECT_EQ(evaluations, losses);
}

/// By TensorBoard's own reader, where it is installed.
TEST(TensorBoard, ReadsTheFile) {
  if (std::system("python3 -c 'import tensorboard' 2> /dev/null") != 0) {
    GTEST_SKIP() << "this system has no TensorBoard";
  }
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"log.tensorboard=true"}).status, 0);
  const std::string out = run.folder().path("losses");
  const std::string script =
      "from tensorboard.backend.event_processing import event_accumulator as e\n"
      "events = e.EventAccumulator('" +
      run.folder().path("runs/small") +
      "')\n"
      "events.Reload()\n"
      "print([[s.step, s.value] for s in events.Scalars('loss/train')])\n";
  ASSERT_EQ(std::system(("python3 -c \"" + script + "\" > " + out).c_str()), 0);
  const json read = json::parse(read_file(out));
  const std::vector<json> records = of_event(run.log(), "step");
  ASSERT_EQ(read.size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(read[i][0], records[i].at("step"));
    EXPECT_EQ(read[i][1].get<float>(), records[i].at("loss").get<float>());
  }
}

TEST(TensorBoard, IsWrittenOnDemandOnly) {
  const SmallRun run;
  ASSERT_EQ(run.run("train").status, 0);
  EXPECT_EQ(read_file(run.folder().path(kEvents)), "");
}

}  // namespace
}  // namespace zerolab::test
