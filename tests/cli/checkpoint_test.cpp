#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/cli/program.h"
#include "tests/cli/saved_tensors.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

const std::string kLog = "runs/small/metrics.jsonl";

std::vector<double> losses(const std::vector<json>& log) {
  std::vector<double> losses;
  for (const json& step : of_event(log, "step")) {
    losses.push_back(step.at("loss"));
  }
  return losses;
}

/// Stopped after four of six steps and resumed: the log and the state are those of one run.
TEST(Checkpoint, AResumedRunIsTheRunThatNeverStopped) {
  const SmallRun whole;
  ASSERT_EQ(whole.run("train", {"checkpoint.every=2"}).status, 0);
  const SmallRun stopped;
  ASSERT_EQ(stopped.run("train", {"checkpoint.every=2", "run.steps=4"}).status, 0);
  const Ended resumed = stopped.run("train", {"checkpoint.every=2"}, {"--resume", "latest"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_NE(resumed.out.find("the same bits as a run that never stopped"), std::string::npos)
      << resumed.out;

  const std::vector<json> log = stopped.log();
  EXPECT_EQ(losses(log), losses(whole.log()));
  EXPECT_EQ(of_event(log, "eval").back(), of_event(whole.log(), "eval").back());
  EXPECT_EQ(of_event(log, "resume").at(0).at("step"), 4);
  EXPECT_EQ(of_event(log, "summary").size(), 1u);
  EXPECT_EQ(saved_tensors(stopped.folder().path("runs/small")),
            saved_tensors(whole.folder().path("runs/small")));
}

/// The checkpoint has all that a resume needs: no configuration is named.
TEST(Checkpoint, ResumesByItsPathAtAnotherStageAndNumberOfRanks) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"checkpoint.every=3", "train.micro_batch_size=6"}).status, 0);
  const std::vector<double> expected = losses(run.log());
  const auto resume = [&](const std::string& name, int ranks) {
    return Program(run.folder(),
                   {"train", "--resume", "runs/small/checkpoints/step-00000003", "--set",
                    "zero.stage=2", "--set", "launch.ranks=" + std::to_string(ranks), "--set",
                    "run.name=" + name})
        .wait();
  };
  const Ended same = resume("same", 2);
  ASSERT_EQ(same.status, 0) << same.err;
  EXPECT_EQ(losses(run.log("runs/same/metrics.jsonl")),
            std::vector<double>(expected.begin() + 3, expected.end()));
  EXPECT_EQ(saved_tensors(run.folder().path("runs/same")),
            saved_tensors(run.folder().path("runs/small")));

  const Ended other = resume("other", 3);
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_NE(other.out.find("not the bits of a run that never stopped, since these changed: "
                           "launch.ranks 2 -> 3"),
            std::string::npos)
      << other.out;
  const std::vector<double> resumed = losses(run.log("runs/other/metrics.jsonl"));
  ASSERT_EQ(resumed.size(), 3u);
  for (size_t i = 0; i < resumed.size(); ++i) {
    EXPECT_NEAR(resumed[i], expected[i + 3], 1e-5);
  }
}

/// The loss scale, schedule, optimizer step and data order go on too.
TEST(Checkpoint, EverythingThatAStepDependsOnIsHeld) {
  const std::vector<std::string> settings = {
      "checkpoint.every=1",   "train.precision=fp16",    "loss_scale.window=2",
      "schedule.name=cosine", "schedule.warmup_steps=2", "model.dropout=0.2",
      "zero.stage=2",         "zero.overlap_comm=true"};
  const SmallRun whole;
  ASSERT_EQ(whole.run("train", settings).status, 0);
  const SmallRun stopped;
  std::vector<std::string> slow = settings;
  slow.push_back("comm.latency_us=20000");
  const auto program = stopped.start("train", slow);
  while (program->is_running() && !std::filesystem::exists(stopped.folder().path(
                                      "runs/small/checkpoints/step-00000002/manifest.json"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program->send(SIGKILL);
  program->wait();
  const Ended resumed = stopped.run("train", settings, {"--resume", "latest"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(losses(stopped.log()), losses(whole.log()));
  EXPECT_EQ(saved_tensors(stopped.folder().path("runs/small")),
            saved_tensors(whole.folder().path("runs/small")));
}

TEST(Checkpoint, SignalsSaveThenEnd) {
  for (const bool on_signal : {true, false}) {
    const SmallRun run;
    const auto program =
        run.start("train", {"run.steps=100000000", "run.eval_every=0", "checkpoint.every=50000000",
                            std::string("checkpoint.on_signal=") + (on_signal ? "true" : "false")});
    while (program->is_running() && read_file(run.folder().path(kLog)).size() < 20'000U) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    program->send(SIGTERM);
    const Ended ended = program->wait(20.0);
    EXPECT_EQ(ended.status, 0) << ended.err;
    const int64_t last = of_event(run.log(), "step").back().at("step");
    EXPECT_EQ(of_event(run.log(), "checkpoint").size(), on_signal ? 1u : 0u);
    if (on_signal) {
      EXPECT_EQ(of_event(run.log(), "checkpoint").at(0).at("step"), last);
      const Ended resumed =
          run.run("train", {"run.steps=" + std::to_string(last + 2)}, {"--resume", "latest"});
      EXPECT_EQ(resumed.status, 0) << resumed.err;
    }
  }
}

TEST(Checkpoint, WhatCannotBeResumedIsSaid) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"checkpoint.every=3"}).status, 0);
  const auto refusal = [&](const std::vector<std::string>& settings) {
    const Ended ended = run.run("train", settings, {"--resume", "latest"});
    EXPECT_NE(ended.status, 0);
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_NE(refusal({}).find("no step is left; got run.steps 6"), std::string::npos);
  EXPECT_NE(
      refusal({"run.steps=9", "train.micro_batch_size=4"}).find("train.train_batch_size must stay"),
      std::string::npos);
  EXPECT_NE(refusal({"run.steps=9", "model.n_layer=3"}).find("no parameter 'h.2."),
            std::string::npos);
  EXPECT_NE(refusal({"run.steps=9", "optimizer.name=sgd", "optimizer.momentum=0.9"})
                .find("is another optimizer's; got weight, exp_avg, exp_avg_sq"),
            std::string::npos);
  run.folder().write("other.txt", std::string(5000, 'a') + "bcdefghijklmnopqrstuvw");
  EXPECT_NE(refusal({"run.steps=9", "data.path=other.txt"}).find("other characters"),
            std::string::npos);
  const Ended again = run.run("train", {"checkpoint.every=3"});
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.err.find("holds checkpoints of an earlier run"), std::string::npos);
}

TEST(Checkpoint, TheCommandsInspectWithoutAModel) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"checkpoint.every=2", "zero.stage=1"}).status, 0);
  const auto command = [&](const std::string& name) {
    return Program(run.folder(), {"checkpoint", name, "runs/small"}).wait();
  };
  const Ended list = command("list");
  EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 2);  // keep = 2
  EXPECT_NE(list.out.find("step-00000004: step 4, "), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("step-00000006: step 6, "), std::string::npos);
  const Ended show = command("show");
  EXPECT_NE(show.out.find("h.1.mlp.c_fc.weight                      [16, 64]"), std::string::npos)
      << show.out;
  EXPECT_NE(show.out.find("each with weight, exp_avg, exp_avg_sq"), std::string::npos);
  EXPECT_NE(show.out.find("tokenizer = \"char\""), std::string::npos);
  EXPECT_NE(command("verify").out.find("every byte is as it was written"), std::string::npos);

  const std::string part = run.folder().path("runs/small/checkpoints/latest/part-001.safetensors");
  std::string bytes = read_file(part);
  bytes.back() ^= 1;
  std::ofstream(part, std::ios::binary) << bytes;
  const Ended verify = command("verify");
  EXPECT_EQ(verify.status, 1);
  EXPECT_NE(verify.err.find("part-001.safetensors' is damaged in record '"), std::string::npos);
  EXPECT_EQ(Program(run.folder(), {"checkpoint", "show", "text.txt"}).wait().status, 1);
}

}  // namespace
}  // namespace zerolab::test
