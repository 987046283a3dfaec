#include "apps/train_gpt/metrics/log_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/data/test_files.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {
namespace {

constexpr const char* kHead = R"({"config":{"run.name":"a \"b\""},"event":"config","version":"0"})"
                              "\n"
                              R"({"event":"layout","num_params":7})"
                              "\n";

class LogReaderTest : public testing::Test {
 protected:
  LoggedRun read(const std::string& text) const {
    folder_.write("metrics.jsonl", text);
    return read_log(folder_.path(""));
  }
  std::string error(const std::string& text) const {
    return error_of([&] { read(text); });
  }

  data::TempDir folder_;
};

TEST_F(LogReaderTest, ReadsEveryKindOfRecord) {
  const LoggedRun run = read(std::string(kHead) + R"({"event":"map","num_parameters":1}
{"comm":{"a }":["\\\"]"]},"event":"step","loss":2.5,"step":1,"tokens_per_s":10.5}
{"event":"timeline","stage":0,"step":1}
{"event":"timeline","stage":0,"step":2}
{"event":"skip","step":1}
{ "tokens_per_s" : 11 , "step" : 2 , "loss" : null , "event" : "step" , "lr" : 0.5 }
{"event":"stage","step":3,"from":0,"to":1}
{"event":"timeline","stage":1,"step":3}
{"event":"eval","loss":1.25,"step":2,"tokens":8}
{"event":"summary","steps":2}
)");
  EXPECT_EQ(run.source, folder_.path("metrics.jsonl"));
  EXPECT_EQ(run.unreadable_lines, 0);
  EXPECT_EQ(run.config.at("config").at("run.name"), "a \"b\"");
  EXPECT_EQ(run.layout.at("num_params"), 7);
  EXPECT_EQ(run.map.at("num_parameters"), 1);
  ASSERT_EQ(run.steps.size(), 2);
  EXPECT_EQ(run.steps[0].step, 1);
  EXPECT_EQ(run.steps[0].loss, 2.5);
  EXPECT_EQ(run.steps[0].tokens_per_s, 10.5);
  EXPECT_TRUE(std::isnan(run.steps[1].loss));
  EXPECT_EQ(run.last_step.at("lr"), 0.5);
  ASSERT_EQ(run.timelines.size(), 2);  // the last of each stage
  EXPECT_EQ(run.timelines[0].at("step"), 2);
  EXPECT_EQ(run.timelines[1].at("stage"), 1);
  ASSERT_EQ(run.stages.size(), 1);
  EXPECT_EQ(run.skipped_steps, 1);
  ASSERT_EQ(run.evaluations.size(), 1);
  EXPECT_EQ(run.evaluations[0].loss, 1.25);
  EXPECT_EQ(run.summary.at("steps"), 2);
}

TEST_F(LogReaderTest, TakesTheBitsOfALoss) {
  const LoggedRun run = read(std::string(kHead) +
                             R"({"event":"step","loss":0.1,"step":1}
{"event":"step","loss":0.10000000000000002,"step":2}
)");
  ASSERT_EQ(run.steps.size(), 2);
  EXPECT_EQ(run.steps[0].loss, 0.1);
  EXPECT_EQ(run.steps[1].loss, std::nextafter(0.1, 1.0));
}

TEST_F(LogReaderTest, ATruncatedLogHasItsWholeLines) {
  const std::string whole = std::string(kHead) + R"({"event":"step","loss":2.5,"step":1}
{"event":"step","loss":2.25,"step":2})";
  EXPECT_EQ(read(whole).steps.size(), 2);  // though its last line has no end
  for (size_t cut = 1; cut < 36; ++cut) {
    const LoggedRun run = read(whole.substr(0, whole.size() - cut));
    EXPECT_EQ(run.steps.size(), 1) << cut;
    EXPECT_EQ(run.unreadable_lines, 1) << cut;
    EXPECT_EQ(run.first_unreadable_line, 4) << cut;
    EXPECT_TRUE(run.summary.is_null());
  }
}

TEST_F(LogReaderTest, FollowsALogThatGrows) {
  std::ofstream log(folder_.path("metrics.jsonl"));
  log << kHead << R"({"event":"step","loss":2.5,"step":1})" << std::flush;
  LogReader reader(folder_.path(""));
  EXPECT_TRUE(reader.read_on());
  EXPECT_FALSE(reader.read_on());
  EXPECT_EQ(reader.run().layout.at("num_params"), 7);
  EXPECT_EQ(reader.run().steps.size(), 0);  // its line has no end yet
  log << "\n"
      << R"({"event":"step","loss":2.25,"lr":0.5,)" << std::flush;
  EXPECT_TRUE(reader.read_on());
  EXPECT_EQ(reader.run().steps.size(), 1);
  log << R"("step":2})"
      << "\n"
      << std::flush;
  EXPECT_TRUE(reader.read_on());
  EXPECT_FALSE(reader.read_on());
  ASSERT_EQ(reader.run().steps.size(), 2);
  EXPECT_EQ(reader.run().steps[1].loss, 2.25);
  EXPECT_EQ(reader.run().last_step.at("lr"), 0.5);
  EXPECT_EQ(reader.run().unreadable_lines, 0);
}

TEST_F(LogReaderTest, CountsWhatIsNoRecord) {
  const std::string deep(100000, '[');
  const LoggedRun run =
      read(std::string(kHead) + "not JSON\n\n[1, 2]\n{}\n{\"event\":\"other\"}\n" +
           R"({"event":"step","loss":"x","step":1}
{"event":"step","loss":1,"step":1.5}
{"event":"step","step":1}
{"event":"step","loss":1,"step":5}
{"event":"step","loss":1,"step":5}
{"event":"summary","a":bad}
{"event":"summary","a":)" +
           deep + std::string(100000, ']') + "}\n" + std::string(1, '\0') + "\n");
  EXPECT_EQ(run.steps.size(), 1);
  EXPECT_EQ(run.unreadable_lines, 11);
  EXPECT_EQ(run.first_unreadable_line, 3);
  EXPECT_TRUE(run.summary.is_null());
}

TEST_F(LogReaderTest, AHugeLineIsLeftOut) {
  const std::string huge = R"({"event":"summary","text":")" + std::string(20 << 20, 'x') + "\"}\n";
  const LoggedRun run = read(kHead + huge + R"({"event":"step","loss":1,"step":1})" + "\n");
  EXPECT_TRUE(run.summary.is_null());
  EXPECT_EQ(run.unreadable_lines, 1);
  EXPECT_EQ(run.first_unreadable_line, 3);
  EXPECT_EQ(run.steps.size(), 1);
}

TEST_F(LogReaderTest, WhatIsNoLogIsAnErrorThatNamesIt) {
  const std::string path = folder_.path("metrics.jsonl");
  const std::string no_run = "[report] " + path + ": holds no run; got ";
  EXPECT_TRUE(error("").starts_with(no_run + "0 lines")) << error("");
  EXPECT_TRUE(error("hello\nworld").starts_with(no_run + "2 lines")) << error("hello\nworld");
  EXPECT_TRUE(error("{\"event\":\"config\"}\n").starts_with(no_run + "0 lines"));
  const std::string missing = error_of([&] { read_log(folder_.path("nothing")); });
  EXPECT_TRUE(missing.starts_with("[report] " + folder_.path("nothing") + ": no such file"))
      << missing;
  // A device may have no end.
  EXPECT_TRUE(error_of([] { read_log("/dev/zero"); }).starts_with("[report] /dev/zero: no such"));
}

}  // namespace
}  // namespace zerolab::app
