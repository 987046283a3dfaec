#include "apps/train_gpt/report/live_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "apps/train_gpt/report/report_data.h"
#include "tests/data/test_files.h"
#include "tests/train_gpt/report/raw_client.h"

namespace zerolab::app {
namespace {

LoggedRun run_of(int64_t steps) {
  LoggedRun run;
  for (int64_t i = 1; i <= steps; ++i) {
    run.steps.push_back({i, 1.0 + 1.0 / static_cast<double>(i), 1.0});
    run.evaluations.push_back({i, 2.0});
  }
  return run;
}

TEST(LivePage, DropsStepsButNeitherPeaksNorTheirNumber) {
  LoggedRun run = run_of(1000);
  run.steps[500].loss = 9.0;
  run.steps[600].loss = -9.0;
  drop_some(run, 1000);
  EXPECT_EQ(run.steps.size(), 1000);
  EXPECT_EQ(run.dropped_steps, 0);
  drop_some(run, 100);
  EXPECT_LE(run.steps.size(), 52);
  EXPECT_EQ(run.dropped_steps + std::ssize(run.steps), 1000);
  EXPECT_EQ(run.steps.front().step, 1);
  EXPECT_EQ(run.steps.back().step, 1000);
  const nlohmann::json loss = report_data({run}).at("runs").at(0).at("loss");
  EXPECT_EQ(loss.at("steps"), 1000);
  EXPECT_EQ(loss.at("lowest"), (nlohmann::json{601, -9.0}));
  EXPECT_EQ(loss.at("against_first").at("compared_steps"), 1000);
}

TEST(LivePage, DroppingAgainAndAgainKeepsTheWholeCurve) {
  const LoggedRun all = run_of(100'000);
  LoggedRun run;
  for (const LoggedStep& step : all.steps) {
    run.steps.push_back(step);
    run.evaluations.push_back(step);
    drop_some(run, 100);
  }
  EXPECT_EQ(run.evaluations.back().step, 100'000);
  for (const auto* curve : {&run.steps, &run.evaluations}) {
    EXPECT_LE(curve->size(), 100);
    std::array<int, 10> of_tenth = {};
    for (const LoggedStep& step : *curve) {
      ++of_tenth.at((step.step - 1) / 10'000);
    }
    EXPECT_GE(std::ranges::min(of_tenth), 3);
  }
}

TEST(LivePage, AnEventOfALongRunIsSmall) {
  const data::TempDir folder;
  std::ofstream log(folder.path("metrics.jsonl"));
  log << R"({"config":{},"event":"config"})"
      << "\n"
      << R"({"event":"layout"})"
      << "\n";
  for (int step = 1; step <= 100'000; ++step) {
    log << R"({"event":"step","loss":)" << 5.0 / step << R"(,"step":)" << step << "}\n";
  }
  log.flush();
  LivePage page(ListenAddress(), folder.path("metrics.jsonl"));
  page.start();
  const int port = std::stoi(page.url().substr(page.url().rfind(':') + 1));
  const test::RawClient browser(port);
  browser.send(test::request("GET", "/events"));
  const std::string event = browser.read_to("\n\n\r\n");
  EXPECT_LT(event.size(), 200'000);
  EXPECT_NE(event.find(R"("steps":100000)"), std::string::npos);
  EXPECT_NE(event.find(R"("lowest":[100000,5e-05])"), std::string::npos);
  EXPECT_NE(event.find(R"("live":"training")"), std::string::npos);
}

}  // namespace
}  // namespace zerolab::app
