#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

/// A run with a checkpoint, made once for all tests.
class Sample : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    run_ = new SmallRun;
    const Ended ended =
        run_->run("train", {"checkpoint.every=6", "zero.stage=2", "train.precision=bf16"});
    ASSERT_EQ(ended.status, 0) << ended.err;
  }
  static void TearDownTestSuite() { delete run_; }

  static Ended command(std::vector<std::string> arguments) {
    return Program(run_->folder(), arguments).wait();
  }
  static Ended sample(std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"sample", "--checkpoint", "runs/small", "--set", "launch.threads_per_rank=1"});
    return command(options);
  }
  static std::string text(const std::vector<std::string>& options) {
    const Ended ended = sample(options);
    EXPECT_EQ(ended.status, 0) << ended.err;
    return ended.out;
  }

  static SmallRun* run_;
};
SmallRun* Sample::run_ = nullptr;

TEST_F(Sample, ContinuesThePrompt) {
  const std::string result = text({"--prompt", "the cat", "--tokens", "40"});
  EXPECT_EQ(result.size(), 7 + 40 + 1);  // a token is a character; the last ends the line
  EXPECT_EQ(result.substr(0, 7), "the cat");
  EXPECT_EQ(result.back(), '\n');
  EXPECT_EQ(text({"--tokens", "0", "--prompt", "a mat"}), "a mat\n");
  EXPECT_EQ(text({"--tokens", "5"}).size(), 6);
}

TEST_F(Sample, TheSeedDecidesTheText) {
  const std::vector<std::string> one = {"--prompt", "the ", "--seed", "1"};
  EXPECT_EQ(text(one), text(one));
  EXPECT_NE(text(one), text({"--prompt", "the ", "--seed", "2"}));
}

TEST_F(Sample, OneLikeliestTokenIsGreedy) {
  const std::string greedy = text({"--prompt", "the ", "--temperature", "0"});
  EXPECT_EQ(text({"--prompt", "the ", "--top-k", "1", "--seed", "1"}), greedy);
  EXPECT_EQ(text({"--prompt", "the ", "--top-p", "1e-6", "--seed", "2"}), greedy);
}

TEST_F(Sample, TheCacheChangesNoCharacter) {
  const std::vector<std::string> options = {"--prompt", "on a mat", "--seed",
                                            "3",        "--set",    "train.precision=fp32"};
  std::vector<std::string> without = options;
  without.push_back("--no-cache");
  EXPECT_EQ(text(without), text(options));
}

TEST_F(Sample, SaysWhatTheModelDoesNotSee) {
  const std::string prompt = "the cat sat on a mat, and ran.\n";
  const Ended ended = sample({"--prompt", prompt, "--tokens", "3"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_NE(ended.err.find("the prompt has 31 tokens; the model sees the last 16"),
            std::string::npos)
      << ended.err;
  const std::string shorter = text({"--prompt", prompt.substr(31 - 16), "--tokens", "3"});
  EXPECT_EQ(ended.out.substr(31), shorter.substr(16));
}

int shell(const std::string& line) { return WEXITSTATUS(std::system(line.c_str())); }

TEST_F(Sample, ReadsThePromptFromStandardInput) {
  const std::string folder = run_->folder().path("");
  ASSERT_EQ(shell("cd " + folder + " && printf 'the ' | " + train_gpt() +
                  " sample --checkpoint runs/small --prompt - --seed 1 > piped 2> /dev/null"),
            0);
  EXPECT_EQ(read_file(run_->folder().path("piped")), text({"--prompt", "the ", "--seed", "1"}));
}

TEST_F(Sample, EndsQuietlyWhereNobodyReadsOn) {
  const std::string folder = run_->folder().path("");
  ASSERT_EQ(shell("cd " + folder + " && " + train_gpt() +
                  " sample --checkpoint runs/small --tokens 100000000 2> err | head -c 10 > ten"),
            0);
  EXPECT_EQ(read_file(run_->folder().path("ten")).size(), 10);
  EXPECT_EQ(read_file(run_->folder().path("err")), "");
}

TEST_F(Sample, AFullDiskIsAnError) {
  const std::string folder = run_->folder().path("");
  EXPECT_EQ(shell("cd " + folder + " && " + train_gpt() +
                  " sample --checkpoint runs/small > /dev/full 2> err"),
            1);
  EXPECT_NE(read_file(run_->folder().path("err")).find("No space left on device"),
            std::string::npos);
}

TEST_F(Sample, RefusesWhatCannotBe) {
  const auto expect_refused = [&](const Ended& ended, int status, const std::string& words) {
    EXPECT_EQ(ended.status, status) << words;
    EXPECT_EQ(ended.out, "") << words;
    EXPECT_NE(ended.err.find(words), std::string::npos) << ended.err;
  };
  expect_refused(command({"sample"}), 2, "--checkpoint");
  expect_refused(sample({"--config", "small.toml"}), 2, "--config");
  expect_refused(command({"sample", "--config", "small.toml"}), 2, "model.init_from is not set");
  expect_refused(command({"sample", "--checkpoint", "nowhere"}), 1, "nowhere");
  expect_refused(sample({"--temperature", "-1"}), 2, "--temperature");
  expect_refused(sample({"--top-p", "0"}), 2, "--top-p");
  expect_refused(sample({"--top-k", "-3"}), 2, "--top-k");
  expect_refused(sample({"--tokens", "-1"}), 2, "--tokens");
  expect_refused(sample({"--seed", "x"}), 2, "--seed");
  expect_refused(sample({"--prompt", "XYZ"}), 1, "outside the char vocabulary; got 0x58");
  expect_refused(sample({"--set", "model.n_embd=32"}), 1, "has another shape");
  expect_refused(sample({"--set", "data.tokenizer=byte"}), 2, "too small for the byte tokenizer");
}

/// What follows `name` in eval's result.
double number(const std::string& result, const std::string& name) {
  const size_t at = result.find("\n" + name + " ");
  return at == std::string::npos ? NAN : std::strtod(&result[at + 1 + name.size()], nullptr);
}

TEST_F(Sample, EvalSumsOverTheWholeText) {
  const Ended both = command({"eval", "--checkpoint", "runs/small", "text.txt"});
  ASSERT_EQ(both.status, 0) << both.err;
  const std::string result = "\n" + both.out;
  const auto characters = static_cast<double>(read_file(run_->folder().path("text.txt")).size());
  EXPECT_EQ(number(result, "tokens"), characters);
  const double loss = number(result, "loss");
  EXPECT_GT(loss, 1.0);
  EXPECT_LT(loss, std::log(20.0));
  EXPECT_NEAR(number(result, "perplexity"), std::exp(loss), 1e-3);
  EXPECT_NEAR(number(result, "bits per byte"), loss / std::log(2.0), 1e-4);  // a byte a token
  const Ended twice = command(
      {"eval", "--checkpoint", "runs/small/checkpoints/step-00000006", "text.txt", "small.toml"});
  EXPECT_EQ(twice.status, 1);
  EXPECT_NE(twice.err.find("outside the char vocabulary"), std::string::npos) << twice.err;
  EXPECT_EQ(command({"eval", "--checkpoint", "runs/small", "empty.txt"}).status, 2);
  EXPECT_EQ(command({"eval", "--checkpoint", "runs/small"}).status, 2);
}

TEST_F(Sample, TakesTheWeightsThatAConfigurationNames) {
  std::vector<std::string> arguments = {"sample", "--config", "small.toml", "--tokens", "20"};
  for (const char* setting :
       {"model.init_from=" SOURCE_FOLDER "/tests/spine/reference/data/adamw-tied/model.safetensors",
        "model.n_embd=12", "model.block_size=9", "model.vocab_size=41", "model.bias=false",
        "launch.threads_per_rank=1"}) {
    arguments.insert(arguments.end(), {"--set", setting});
  }
  const Ended ended = command(arguments);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.out.size(), 21);
}

TEST(SampleOfShards, NeedsTheTokenizersName) {
  const SmallRun run;
  std::vector<uint16_t> tokens(1000);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<uint16_t>(i * i % 300);
  }
  run.folder().write_shard("tokens.bin", tokens);
  // More tokens than bytes: a text has none of the others.
  ASSERT_EQ(run.run("train", {"data.path=tokens.bin", "model.vocab_size=300", "checkpoint.every=6"})
                .status,
            0);
  const auto command = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {name, "--checkpoint", "runs/small", "--set",
                                          "launch.threads_per_rank=1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Program(run.folder(), arguments).wait();
  };
  const Ended refused = command("sample", {});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("name the tokenizer with --set data.tokenizer"), std::string::npos);
  EXPECT_EQ(command("sample", {"--set", "data.tokenizer=byte"}).status, 0);
  const Ended eval = command("eval", {"--set", "data.tokenizer=byte", "tokens.bin"});
  EXPECT_EQ(eval.status, 0) << eval.err;
  EXPECT_EQ(number("\n" + eval.out, "tokens"), 1000);
  EXPECT_EQ(eval.out.find("bits per byte"), std::string::npos);
}

TEST(SampleEvery, LogsTextsAndChangesNoBit) {
  const SmallRun run;
  ASSERT_EQ(run.run("train").status, 0);
  const std::vector<nlohmann::json> plain = of_event(run.log(), "step");
  const Ended ended = run.run("train", {"run.sample_every=2", "run.sample_prompt=the "});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("step 4: sample \""), std::string::npos) << ended.out;
  const std::vector<nlohmann::json> steps = of_event(run.log(), "step");
  ASSERT_EQ(steps.size(), plain.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].at("loss"), plain[i].at("loss")) << i;
    EXPECT_EQ(steps[i].at("grad_norm"), plain[i].at("grad_norm")) << i;
  }
  const std::vector<nlohmann::json> samples = of_event(run.log(), "sample");
  ASSERT_EQ(samples.size(), 3);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].at("step"), 2 * (i + 1));
    EXPECT_EQ(samples[i].at("text").get<std::string>().size(), 100);
  }
  EXPECT_NE(samples[0].at("text"), samples[2].at("text"));
  ASSERT_EQ(run.run("train", {"run.name=diverged", "run.sample_every=6", "optimizer.lr=1e30",
                              "optimizer.gradient_clipping=0"})
                .status,
            0);
  const auto diverged = of_event(run.log("runs/diverged/metrics.jsonl"), "sample");
  ASSERT_EQ(diverged.size(), 1);
  EXPECT_NE(diverged[0].at("error").get<std::string>().find("logits are not finite"),
            std::string::npos);
  const Ended refused =
      run.run("train", {"run.name=refused", "run.sample_every=2", "run.sample_prompt=XYZ"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("outside the char vocabulary"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace zerolab::test
