#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "tests/cli/program.h"
#include "tests/train_gpt/metrics/event_reader.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

/// Killed whenever: no line is missing, none but the last is cut (the kill may come within a
/// write), and TensorBoard's file is as long.
TEST(Kill, LosesNothingBetweenTwoLines) {
  const SmallRun run;
  for (int round = 0; round < 8; ++round) {
    const std::string folder = "runs/round-" + std::to_string(round);
    const std::string log = folder + "/metrics.jsonl";
    const auto program =
        run.start("train", {"run.steps=100000000", "run.eval_every=0", "log.tensorboard=true",
                            "run.name=round-" + std::to_string(round)});
    while (program->is_running() &&
           read_file(run.folder().path(log)).size() < 20'000U + 1'777U * round) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    program->send(SIGKILL);
    ASSERT_EQ(program->wait().status, -1);

    std::string text = read_file(run.folder().path(log));
    text.resize(text.rfind('\n') + 1);
    run.folder().write(log, text);
    const std::vector<json> steps = of_event(run.log(log), "step");  // throws where a line is cut
    ASSERT_FALSE(steps.empty());
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(steps[i].at("step"), i + 1);
    }
    const std::vector<ReadEvent> events =
        EventReader(read_file(run.folder().path(folder + "/events.out.tfevents.zerolab"))).all();
    EXPECT_GE(events.back().step, static_cast<int64_t>(steps.size()) - 1);
    EXPECT_LE(events.back().step, static_cast<int64_t>(steps.size()));
  }
}

}  // namespace
}  // namespace zerolab::test
