#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

namespace fs = std::filesystem;

struct Fault {
  std::string name;
  std::vector<std::string> settings;
  std::vector<std::string> told;  ///< what the message must hold
};

std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }

const Fault kFaults[] = {
    {"UnknownKey", {"zero.stge=2"}, {"--set zero.stge", "nearest is zero.stage"}},
    {"UnknownSection", {"zer.stage=2"}, {"[zer]", "nearest is [zero]"}},
    {"WrongType", {"zero.stage=two"}, {"zero.stage", "\"two\"", "an integer >= 0 and <= 2"}},
    {"OutOfRange", {"zero.stage=3"}, {"zero.stage", "got 3", "<= 2"}},
    {"NoValue", {"zero.stage"}, {"zero.stage", "expected section.key=value"}},
    {"MissingCorpus", {"data.path=none.txt"}, {"data.path", "none.txt", "expected a file in"}},
    {"EmptyCorpus", {"data.path=empty.txt"}, {"the corpus is empty", "empty.txt"}},
    {"CorpusThatIsAFolder", {"data.path=/tmp"}, {"/tmp", "a folder", "expected a file"}},
    {"ValidationSplitTooSmall",
     {"data.val_fraction=0.001"},
     {"validation tokens", "block_size 16", "another val_fraction"}},
    {"SequenceLongerThanCorpus",
     {"model.block_size=100000"},
     {"block_size 100000", "a larger corpus", "smaller block_size"}},
    {"BatchSizesDoNotMultiplyOut",
     {"train.train_batch_size=7"},
     {"train.train_batch_size", "got 7", "= 4", "leave one of them out"}},
    {"ModelDoesNotFit",
     {"launch.memory_limit=100kB"},
     {"does not fit", "100000", "launch.memory_limit", "optimizer_state"}},
    {"WeightsThatAreNoWeights",
     {"model.init_from=text.txt"},
     {"model.init_from", "text.txt", "no safetensors file"}},
    {"WeightsOfAnotherModel",
     {"model.init_from=" SOURCE_FOLDER "/tests/spine/reference/data/adamw-tied/model.safetensors"},
     {"model.init_from", "adamw-tied", "another shape", "wte.weight"}},
    {"HeadsDoNotDivide", {"model.n_head=3"}, {"model.n_embd", "n_head 3"}},
    {"VocabularyTooSmall", {"model.vocab_size=3"}, {"model.vocab_size", "got 3"}},
    {"TokenizerWithoutVocabulary",
     {"data.tokenizer=gpt2"},
     {"--set data.tokenizer", "data.vocab", "encoder.json"}},
    {"VocabularyThatIsNone",
     {"data.tokenizer=gpt2", "data.vocab=/tmp"},
     {"no vocabulary in '/tmp'", "encoder.json", "No such file"}},
    {"VocabularyOfAnotherTokenizer",
     {"data.vocab=/tmp"},
     {"--set data.vocab", "got tokenizer \"char\""}},
    {"DashboardWithoutPort", {"log.dashboard=true"}, {"log.dashboard", "\"true\"", "HOST:PORT"}},
    {"DashboardWithoutLog",
     {"log.dashboard=0", "log.metrics=false"},
     {"--set log.dashboard", "log.metrics false"}},
    {"PrescaleWithReduceScatter",
     {"zero.prescale_gradients=true"},
     {"--set zero.prescale_gradients", "divides once", "set zero.reduce_scatter = false"}},
    {"GatherSizeWithoutItsLayout",
     {"zero.allgather_bucket_size=1000"},
     {"--set zero.allgather_bucket_size", "\"bucketed\"", "contiguous"}},
    {"AccumulationInAnotherType",
     {"zero.gradient_accumulation_dtype=bf16"},
     {"--set zero.gradient_accumulation_dtype", "fp32 or in the parameters' dtype"}},
    {"DynamicLossScaleInFp32",
     {"loss_scale.mode=dynamic"},
     {"--set loss_scale.mode", "\"fp32\"", "\"static\""}},
    {"TraceBeyondTheEnd",
     {"log.trace=true", "log.trace_first_step=7"},
     {"--set log.trace_first_step", "got 7", "run.steps 6"}},
    {"ScheduleBeyondTheEnd",
     {"zero.schedule=[{step = 2, stage = 1}, {step = 7, stage = 2}]"},
     {"--set zero.schedule", "got 7", "run.steps 6"}},
};

class Refusal : public testing::TestWithParam<Fault> {};

void expect_refusal(const Ended& ended, const std::vector<std::string>& told) {
  EXPECT_EQ(ended.status, 2);
  EXPECT_EQ(ended.out, "");
  EXPECT_TRUE(ended.err.starts_with("error: [")) << ended.err;
  EXPECT_EQ(ended.err.find("error: ", 1), std::string::npos) << ended.err;
  for (const std::string& text : told) {
    EXPECT_NE(ended.err.find(text), std::string::npos) << text << " is not in: " << ended.err;
  }
}

TEST_P(Refusal, TellsWhatToDoAndWritesNothing) {
  const SmallRun run;
  for (const char* command : {"train", "compare"}) {
    expect_refusal(run.run(command, GetParam().settings), GetParam().told);
    EXPECT_FALSE(fs::exists(run.folder().path("runs"))) << command;
  }
}

TEST_P(Refusal, LeavesAnOlderLogAlone) {
  const SmallRun run;
  const std::string log = run.folder().path("runs/small/metrics.jsonl");
  fs::create_directories(fs::path(log).parent_path());
  run.folder().write("runs/small/metrics.jsonl", "older\n");
  EXPECT_EQ(run.run("train", GetParam().settings).status, 2);
  EXPECT_EQ(read_file(log), "older\n");
}

INSTANTIATE_TEST_SUITE_P(Faults, Refusal, testing::ValuesIn(kFaults),
                         [](const auto& info) { return info.param.name; });

TEST(RefusalOfAFile, NamesFileLineAndNearestKey) {
  const SmallRun run;
  run.folder().write("bad.toml", "[run]\nsteps = 3\n\n[zero]\nreduce_buket_size = 5\n");
  expect_refusal(Program(run.folder(), {"train", "bad.toml"}).wait(),
                 {"bad.toml:5", "zero.reduce_buket_size", "nearest is zero.reduce_bucket_size"});
  run.folder().write("type.toml", "[run]\nsteps = \"many\"\n");
  expect_refusal(Program(run.folder(), {"train", "type.toml"}).wait(),
                 {"type.toml:2", "run.steps", "\"many\"", "an integer"});
  run.folder().write("syntax.toml", "[run]\nsteps = = 3\n");
  expect_refusal(Program(run.folder(), {"train", "syntax.toml"}).wait(),
                 {"syntax.toml:2", "not TOML"});
}

TEST(RefusalOfAFile, ThatIsNotThere) {
  const SmallRun run;
  expect_refusal(Program(run.folder(), {"train", "none.toml"}).wait(),
                 {"none.toml", "cannot be read", "No such file"});
}

TEST(RefusalOfACommandLine, SaysHow) {
  const SmallRun run;
  const std::vector<std::string> wrong[] = {
      {}, {"train"}, {"trian", "small.toml"}, {"train", "small.toml", "--stages", "1"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const Ended ended = Program(run.folder(), arguments).wait();
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.err.find("--help"), std::string::npos) << ended.err;
  }
}

TEST(Failure, OutDirThatCannotBeMade) {
  const SmallRun run;
  const Ended ended = run.run("train", {"run.out_dir=/proc/none"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("/proc/none/small"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("change run.out_dir"), std::string::npos) << ended.err;
}

TEST(Failure, OutDirThatIsAFile) {
  const SmallRun run;
  const Ended ended = run.run("train", {"run.out_dir=text.txt"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("Not a directory"), std::string::npos) << ended.err;
}

TEST(Failure, FullDiskEndsAllRanks) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  const SmallRun run;
  fs::create_directories(run.folder().path("runs/small"));
  fs::create_symlink("/dev/full", run.folder().path("runs/small/metrics.jsonl"));
  const Ended ended = run.start("train", {"launch.ranks=4", "run.steps=100000"})->wait(30.0);
  EXPECT_EQ(ended.status, 1);
  EXPECT_NE(ended.err.find("No space left on device"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("change run.out_dir"), std::string::npos) << ended.err;
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
}

}  // namespace
}  // namespace zerolab::test
