#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "data/corpus.h"
#include "tests/cli/program.h"
#include "tests/data/bpe_files.h"

namespace zerolab::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Tokens = std::vector<uint16_t>;

constexpr int kVocabSize = 377;  // of the small vocabulary, with its end of text

class Prepare : public testing::Test {
 protected:
  std::unique_ptr<Program> start(std::vector<std::string> arguments,
                                 const std::string& input = "/dev/null") {
    arguments.insert(arguments.begin(), "prepare");
    arguments.insert(arguments.end(), {"--vocab", data::kSmallVocabulary});
    return std::make_unique<Program>(run_.folder(), arguments, "", input);
  }
  Ended prepare(const std::vector<std::string>& arguments, const std::string& input = "/dev/null") {
    return start(arguments, input)->wait();
  }
  /// All tokens of a folder's shards, in order.
  Tokens tokens_of(const std::string& out) {
    const data::Corpus corpus(std::vector<std::string>{path(out + "/*.bin")});
    Tokens tokens;
    for (const auto& shard : corpus.shards()) {
      tokens.insert(tokens.end(), shard.begin(), shard.end());
    }
    return tokens;
  }
  std::string path(const std::string& name) const { return run_.folder().path(name); }
  void expect_refusal(const Ended& ended, int status, std::string_view told) {
    EXPECT_EQ(ended.status, status);
    EXPECT_EQ(ended.out, "");
    EXPECT_TRUE(ended.err.starts_with("error: [")) << ended.err;
    EXPECT_NE(ended.err.find(told), std::string::npos) << ended.err;
  }

  const SmallRun run_;
};

TEST_F(Prepare, MakesShardsThatTrainAsTheirText) {
  const Ended ended = prepare({"text.txt", "-o", "out", "--shard-tokens", "1000"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("model.vocab_size = 377"), std::string::npos) << ended.out;
  EXPECT_GT(std::distance(fs::directory_iterator(path("out")), {}), 3);

  const auto losses = [&](const std::vector<std::string>& settings) {
    const Ended trained = run_.run("train", settings);
    EXPECT_EQ(trained.status, 0) << trained.err;
    std::vector<double> found;
    for (const json& step : of_event(run_.log(), "step")) {
      found.push_back(step.at("loss").get<double>());
    }
    return found;
  };
  const std::vector<double> of_text =
      losses({"data.tokenizer=gpt2", std::string("data.vocab=") + data::kSmallVocabulary});
  EXPECT_EQ(of_text.size(), 6U);
  EXPECT_EQ(losses({"data.path=out/shard_*.bin", "model.vocab_size=377"}), of_text);
}

TEST_F(Prepare, PutsTheEndOfTextBetweenFiles) {
  run_.folder().write("b.txt", "over");
  run_.folder().write("a.txt", "the");
  ASSERT_EQ(prepare({"b.txt", "a.txt", "-o", "ba"}).status, 0);
  ASSERT_EQ(prepare({"[ab].txt", "-o", "ab"}).status, 0);
  ASSERT_EQ(prepare({"b.txt", "-o", "b"}).status, 0);
  ASSERT_EQ(prepare({"a.txt", "-o", "a"}).status, 0);
  const Tokens a = tokens_of("a");
  const Tokens b = tokens_of("b");
  const auto joined = [](Tokens first, const Tokens& second) {
    first.push_back(kVocabSize - 1);
    first.insert(first.end(), second.begin(), second.end());
    return first;
  };
  EXPECT_EQ(tokens_of("ba"), joined(b, a));
  EXPECT_EQ(tokens_of("ab"), joined(a, b));

  ASSERT_EQ(prepare({"b.txt", "a.txt", "-o", "bytes", "--tokenizer", "byte"}).status, 0);
  EXPECT_EQ(tokens_of("bytes"), (Tokens{'o', 'v', 'e', 'r', 't', 'h', 'e'}));
  ASSERT_EQ(prepare({"b.txt", "a.txt", "-o", "chars", "--tokenizer", "char"}).status, 0);
  EXPECT_EQ(tokens_of("chars"), (Tokens{2, 5, 0, 3, 4, 1, 0}));  // e h o r t v
}

TEST_F(Prepare, ReadsStandardInput) {
  EXPECT_EQ(prepare({"-", "-o", "in"}, path("text.txt")).status, 0);
  ASSERT_EQ(prepare({"text.txt", "-o", "file"}).status, 0);
  EXPECT_EQ(tokens_of("in"), tokens_of("file"));
  expect_refusal(prepare({"-", "-o", "in", "--resume"}, path("text.txt")), 2,
                 "cannot be read again");
  expect_refusal(prepare({"-", "-o", "other", "--tokenizer", "char"}), 2, "expected files");
  expect_refusal(prepare({"-", "text.txt", "-o", "other"}), 2, "an input of its own");
  expect_refusal(prepare({"-", "-o", "empty"}), 1, "the inputs are empty");
}

TEST_F(Prepare, GoesOnlyOnWithTheSame) {
  ASSERT_EQ(prepare({"text.txt", "-o", "out"}).status, 0);
  const std::string shard = read_file(path("out/shard_000000.bin"));
  expect_refusal(prepare({"text.txt", "-o", "out"}), 2, "use --resume");
  EXPECT_EQ(prepare({"text.txt", "-o", "out", "--resume"}).status, 0);
  expect_refusal(prepare({"text.txt", "-o", "out", "--resume", "--shard-tokens", "5"}), 2,
                 "tokens of a shard; got 5, expected 100000000");
  expect_refusal(prepare({"text.txt", "-o", "out", "--resume", "--tokenizer", "byte"}), 2,
                 "the tokenizer; got byte, expected gpt2");
  expect_refusal(prepare({"small.toml", "-o", "out", "--resume"}), 2, "an input; got ");
  expect_refusal(prepare({"text.txt", "small.toml", "-o", "out", "--resume"}), 2,
                 "the number of inputs; got 2, expected 1");
  run_.folder().write("text.txt", "another");
  expect_refusal(prepare({"text.txt", "-o", "out", "--resume"}), 2, "has changed; got 7 bytes");
  run_.folder().write("out/prepare.json", "{");
  expect_refusal(prepare({"text.txt", "-o", "out", "--resume"}), 1, "prepare.json' is damaged");
  fs::remove(path("out/prepare.json"));
  expect_refusal(prepare({"text.txt", "-o", "out"}), 2, ".bin files of something else");
  EXPECT_EQ(read_file(path("out/shard_000000.bin")), shard);
}

TEST_F(Prepare, RefusesWhatIsNoText) {
  expect_refusal(prepare({"none.txt", "-o", "out"}), 2, "no such file; got path 'none.txt'");
  expect_refusal(prepare({"/tmp", "-o", "out"}), 2, "'/tmp' is no file");
  EXPECT_FALSE(fs::exists(path("out")));
}

/// Killed whenever, and resumed until it is done: the same bytes as undisturbed.
TEST_F(Prepare, GoesOnAfterAKill) {
  const std::string text = read_file(path("text.txt"));
  std::string long_text;
  for (int i = 0; i < 300; ++i) {
    long_text += text.substr(i);
  }
  run_.folder().write("long.txt", long_text);
  const std::vector<std::string> inputs = {"long.txt", "text.txt", "--shard-tokens", "100000"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), inputs.begin(), inputs.end());
    return more;
  };
  ASSERT_EQ(prepare(with({"-o", "whole", "--threads", "1"})).status, 0);
  int kills = 0;
  for (int round = 0;; ++round) {
    ASSERT_LT(round, 200);
    const auto program = start(with({"-o", "killed", "--resume"}));
    // The first rounds end early, at changing moments; later ones have ever more time.
    const auto begin = std::chrono::steady_clock::now();
    while (program->is_running() &&
           std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100 + 60 * round)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!program->is_running()) {
      ASSERT_EQ(program->wait().status, 0);
      break;
    }
    program->send(SIGKILL);
    program->wait();
    ++kills;
  }
  EXPECT_GT(kills, 0);
  for (const fs::directory_entry& entry : fs::directory_iterator(path("whole"))) {
    const std::string name = entry.path().filename();
    EXPECT_EQ(read_file(path("killed/" + name)), read_file(entry.path())) << name;
  }
}

TEST_F(Prepare, LeavesNoHalfShardOnAFullDisk) {
  // A limit of the size of files gives the same fault at the same place.
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {.rlim_cur = 8192, .rlim_max = limit.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const Ended ended = prepare({"text.txt", "-o", "out", "--threads", "2"});
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, SIG_DFL);
  expect_refusal(ended, 1, "shard_000000.bin.part': File too large");
  EXPECT_TRUE(fs::exists(path("out/prepare.json")));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("out")), {}), 1);

  EXPECT_EQ(prepare({"text.txt", "-o", "out", "--resume"}).status, 0);
  ASSERT_EQ(prepare({"text.txt", "-o", "other"}).status, 0);
  EXPECT_EQ(tokens_of("out"), tokens_of("other"));
}

TEST_F(Prepare, StopsOnRequest) {
  const std::string text = read_file(path("text.txt"));
  std::string long_text;
  for (int i = 0; i < 2000; ++i) {
    long_text += text;
  }
  run_.folder().write("long.txt", long_text);
  const auto program = start({"long.txt", "-o", "out", "--shard-tokens", "200000"});
  while (program->is_running() && !fs::exists(path("out/shard_000002.bin"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program->send(SIGTERM);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("--resume goes on"), std::string::npos) << ended.err;
  EXPECT_FALSE(json::parse(read_file(path("out/prepare.json"))).at("complete").get<bool>());
}

}  // namespace
}  // namespace zerolab::test
