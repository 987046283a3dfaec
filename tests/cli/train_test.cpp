#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

constexpr int kRanks = 2;

std::vector<std::string> events_of(const std::vector<json>& log) {
  std::vector<std::string> events;
  for (const json& record : log) {
    events.push_back(record.at("event"));
  }
  return events;
}

std::vector<double> losses_of(const std::vector<json>& log) {
  std::vector<double> losses;
  for (const json& record : of_event(log, "step")) {
    losses.push_back(record.at("loss"));
  }
  return losses;
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) {
    keys.push_back(key);
  }
  return keys;
}

TEST(Train, LogsTheWholeRun) {
  const SmallRun run;
  const Ended ended = run.run("train");
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const std::vector<json> log = run.log();
  EXPECT_EQ(events_of(log), (std::vector<std::string>{"config", "layout", "map", "step", "timeline",
                                                      "step", "timeline", "step", "eval", "step",
                                                      "step", "step", "eval", "summary"}));
  const json& config = log.front().at("config");
  EXPECT_EQ(config.at("run.steps"), 6);
  EXPECT_EQ(config.at("zero.stage"), 0);
  EXPECT_EQ(config.at("train.train_batch_size"), 4);  // resolved
  EXPECT_TRUE(log.front().contains("version"));
  const json& summary = log.back();
  EXPECT_EQ(summary.at("steps"), 6);
  EXPECT_EQ(summary.at("stopped"), false);
  EXPECT_EQ(summary.at("skipped_steps"), 0);
  EXPECT_EQ(summary.at("final_loss"), losses_of(log).back());
  EXPECT_EQ(summary.at("eval_loss"), of_event(log, "eval").back().at("loss"));
}

TEST(Train, StepsHoldEveryField) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"zero.stage=2", "schedule.warmup_steps=2"}).status, 0);
  const std::vector<json> log = run.log();
  const json& layout = log.at(1);
  const double learning_rates[] = {5e-4, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3};
  int64_t number = 0;
  for (const json& step : of_event(log, "step")) {
    EXPECT_EQ(keys_of(step),
              (std::vector<std::string>{"comm", "event", "grad_norm", "loss", "loss_scale", "lr",
                                        "memory", "ms", "step", "tokens", "tokens_per_s"}));
    EXPECT_EQ(step.at("lr"), learning_rates[number]);
    EXPECT_EQ(step.at("step"), ++number);
    EXPECT_EQ(step.at("tokens"), 2 * 1 * kRanks * 16);  // micro-batch x k x N x T
    EXPECT_EQ(step.at("loss_scale"), 1.0);
    EXPECT_GT(step.at("grad_norm"), 0.0);

    const json& ms = step.at("ms");
    EXPECT_EQ(keys_of(ms),
              (std::vector<std::string>{"backward", "comm_exposed", "comm_hidden", "comm_transfer",
                                        "comm_wait", "forward", "optimizer", "step"}));
    const double duration = ms.at("step");
    EXPECT_NEAR(step.at("tokens_per_s"), 1e3 * 64 / duration, 1e-6 * 1e3 * 64 / duration);
    double parts = 0.0;
    for (const char* part : {"forward", "backward", "optimizer", "comm_exposed"}) {
      EXPECT_GE(ms.at(part), 0.0) << part;
      parts += ms.at(part).get<double>();
    }
    EXPECT_LE(parts, duration);

    const json& rank0 = step.at("comm").at("rank0");
    EXPECT_EQ(rank0.at("reduce_scatter gradient").at("bytes_sent"),
              layout.at("bytes_sent_per_step").at("gradients"));
    EXPECT_EQ(rank0.at("all_gather parameter").at("bytes_sent"),
              layout.at("bytes_sent_per_step").at("parameters"));
    for (const auto& [op, entry] : rank0.items()) {  // both ranks send the same here
      const json& all = step.at("comm").at("all_ranks").at(op);
      EXPECT_EQ(all.at("calls"), kRanks * entry.at("calls").get<int64_t>()) << op;
      EXPECT_EQ(all.at("bytes_sent"), kRanks * entry.at("bytes_sent").get<int64_t>()) << op;
    }

    ASSERT_EQ(step.at("memory").size(), kRanks);
    for (const json& memory : step.at("memory")) {
      for (const auto& [category, state] : layout.at("state_bytes").items()) {
        EXPECT_EQ(memory.at(category).at("current"), state.at("bytes")) << category;
        EXPECT_EQ(memory.at(category).at("peak"), state.at("bytes")) << category;
      }
      EXPECT_GT(memory.at("activations").at("peak"), 0);
      EXPECT_EQ(memory.at("activations").at("current"), 0);
      EXPECT_GE(memory.at("total").at("peak"), memory.at("total").at("current"));
    }
  }
}

TEST(Train, LossesAreTheSameUnderEveryStage) {
  const SmallRun run;
  std::vector<double> expected;
  for (const char* stage : {"0", "1", "2"}) {
    const std::string name = std::string("stage") + stage;
    const Ended ended = run.run("train", {std::string("zero.stage=") + stage, "run.name=" + name,
                                          "zero.overlap_comm=true"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    const std::vector<double> losses = losses_of(run.log("runs/" + name + "/metrics.jsonl"));
    ASSERT_EQ(losses.size(), 6);
    expected = expected.empty() ? losses : expected;
    EXPECT_EQ(losses, expected) << "stage " << stage;
  }
  EXPECT_LT(expected.back(), expected.front());
}

TEST(Train, LoggedConfigurationRunsAgain) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"zero.stage=1", "run.seed=5"}).status, 0);
  const std::vector<json> first = run.log();
  std::vector<std::string> settings = {"run.name=again"};
  for (const auto& [key, value] : first.front().at("config").items()) {
    if (key != "run.name") {
      settings.push_back(key + "=" + value.dump());
    }
  }
  const Ended ended = run.run("train", settings);
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(losses_of(run.log("runs/again/metrics.jsonl")), losses_of(first));
}

TEST(Train, TheRunFolderMakesTheRunAgain) {
  const SmallRun run;
  const std::vector<std::string> settings = {"zero.stage=2", "optimizer.lr=0.01",
                                             "zero.schedule=[{step=4, stage=1}]"};
  ASSERT_EQ(run.run("train", settings).status, 0);
  const std::vector<json> first = run.log();
  const std::string written = read_file(run.folder().path("runs/small/config.toml"));
  const Ended again = Program(run.folder(), {"train", "runs/small/config.toml"}).wait();
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(run.log().front().at("source"), "runs/small/config.toml");
  EXPECT_EQ(run.log().front().at("config"), first.front().at("config"));
  EXPECT_EQ(losses_of(run.log()), losses_of(first));
  EXPECT_EQ(read_file(run.folder().path("runs/small/config.toml")), written);
}

TEST(Train, TheLogTellsWhatTheRunWasMadeWith) {
  const SmallRun run;
  ASSERT_EQ(run.run("train").status, 0);
  const json config = run.log().front();
  const auto matches = [](const json& text, const char* pattern) {
    return std::regex_match(text.get<std::string>(), std::regex(pattern));
  };
  EXPECT_TRUE(matches(config.at("commit"), "unknown|[0-9a-f]{40}(-dirty)?"));
  const json& machine = config.at("machine");
  EXPECT_TRUE(matches(machine.at("kernel"), "Linux [0-9].* .+"));
  EXPECT_TRUE(matches(machine.at("system"), "[^\"]+"));
  EXPECT_TRUE(matches(machine.at("flags"), "-.* -ffp-contract=off.*"));
  EXPECT_EQ(machine.at("devices"), json::array());
  EXPECT_TRUE(machine.at("libraries").contains("tomlplusplus"));
  for (const auto& [library, version] : machine.at("libraries").items()) {
    EXPECT_TRUE(matches(version, "[0-9]+\\.[0-9.]+")) << library;
  }
}

TEST(Train, WritesPlainLinesWhereThereIsNoTerminal) {
  const SmallRun run;
  const std::string out = run.run("train", {"run.log_every=4"}).out;
  EXPECT_EQ(out.find_first_of("\r\x1b"), std::string::npos);
  EXPECT_EQ(out.find("step 3/6"), std::string::npos);
  EXPECT_NE(out.find("step 4/6  loss "), std::string::npos);
  EXPECT_NE(out.find("step 6/6  loss "), std::string::npos);
  EXPECT_NE(out.find("step 6: validation loss "), std::string::npos);
  EXPECT_NE(out.find("log: runs/small/metrics.jsonl\n"), std::string::npos);
  EXPECT_EQ(of_event(run.log(), "step").size(), 6);  // the log has them all
}

TEST(Train, ConsoleAndLogCanBeOff) {
  const SmallRun run;
  const Ended ended = run.run("train", {"log.console=off", "log.metrics=false"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "");
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
}

TEST(Train, LogsSkippedStepsAndEndsAfterTooMany) {
  const SmallRun run;
  const Ended ended =
      run.run("train", {"optimizer.lr=1e30", "optimizer.gradient_clipping=0", "run.steps=50",
                        "run.eval_every=0", "train.max_skipped_steps=3"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("not finite"), std::string::npos);
  EXPECT_NE(ended.err.find("train.max_skipped_steps"), std::string::npos);
  const std::vector<json> skips = of_event(run.log(), "skip");
  ASSERT_GE(skips.size(), 2);  // a step is logged during the next one, which failed here
  EXPECT_EQ(skips[0].at("kind"), "NaN");
  EXPECT_NE(skips[0].at("parameter"), "");
  EXPECT_TRUE(of_event(run.log(), "step").back().at("grad_norm").is_null());
}

TEST(Help, DocumentsEveryKeyOfTheLog) {
  const SmallRun run;
  const Ended help = Program(run.folder(), {"--help"}).wait();
  EXPECT_EQ(help.status, 0);
  EXPECT_EQ(help.err, "");
  ASSERT_EQ(run.run("train").status, 0);
  for (const auto& [key, value] : run.log().front().at("config").items()) {
    const size_t dot = key.find('.');
    const size_t section = help.out.find("\n[" + key.substr(0, dot) + "]\n");
    ASSERT_NE(section, std::string::npos) << key;
    EXPECT_NE(help.out.find("\n  " + key.substr(dot + 1) + " = ", section), std::string::npos)
        << key;
  }
  EXPECT_EQ(Program(run.folder(), {"--version"}).wait().status, 0);
}

}  // namespace
}  // namespace zerolab::test
