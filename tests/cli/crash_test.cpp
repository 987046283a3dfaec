#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/cli/program.h"
#include "tests/cli/saved_tensors.h"

namespace zerolab::test {
namespace {

constexpr int kKills = 50;
const std::vector<std::string> kSettings = {"run.steps=300",      "run.eval_every=0",
                                            "checkpoint.every=1", "checkpoint.keep=2",
                                            "optimizer.lr=0.01",  "launch.ranks=2"};

/// A run is killed at 50 random moments: in steps, while it saves and renames, and while it starts;
/// and resumed each time under another stage. It ends with the bits of one that never stopped.
TEST(Crash, FiftyKillsChangeNoBit) {
  const SmallRun undisturbed;
  ASSERT_EQ(undisturbed.run("train", kSettings).status, 0);

  const SmallRun run;
  std::mt19937 random(20261130);  // the moments; where they fall is the machine's
  int resumed = 0;
  const auto start = [&](int round) {
    std::vector<std::string> settings = kSettings;
    settings.push_back("zero.stage=" + std::to_string(round % 3));
    const bool resumes =
        !checkpoint::Folder(run.folder().path("runs/small/checkpoints")).steps().empty();
    resumed += resumes ? 1 : 0;
    return run.start(
        "train", settings,
        resumes ? std::vector<std::string>{"--resume", "latest"} : std::vector<std::string>{});
  };
  for (int round = 0; round < kKills; ++round) {
    const auto program = start(round);
    // Most kills come a little after the run has saved; the others may come before it has begun.
    const std::string log = run.folder().path("runs/small/metrics.jsonl");
    const auto begun = std::filesystem::file_time_type::clock::now();
    std::error_code error;
    while (round % 5 != 0 && program->is_running() &&
           !(std::filesystem::last_write_time(log, error) > begun && !error)) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
    program->send(SIGKILL);
    const Ended ended = program->wait();
    ASSERT_EQ(ended.status, -1) << "round " << round << " ended by itself: " << ended.err;
  }
  EXPECT_GT(resumed, kKills / 2);
  const Ended last = start(kKills)->wait();
  ASSERT_EQ(last.status, 0) << last.err;

  EXPECT_EQ(saved_tensors(run.folder().path("runs/small")),
            saved_tensors(undisturbed.folder().path("runs/small")));
  const std::vector<nlohmann::json> steps = of_event(run.log(), "step");
  const std::vector<nlohmann::json> expected = of_event(undisturbed.log(), "step");
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].at("loss"), expected[i].at("loss")) << "step " << i + 1;
  }
}

}  // namespace
}  // namespace zerolab::test
