#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <map>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

const std::string kReference = SOURCE_FOLDER "/tests/spine/reference/data/gpt2/";

/// One step that changes nothing (a rate of 0), from the weights in `file`, at stage 2 on three
/// ranks.
std::vector<std::string> from(const std::string& file, bool tied) {
  return {"run.steps=1",
          "run.eval_every=0",
          "launch.ranks=3",
          "zero.stage=2",
          "optimizer.lr=0",
          "checkpoint.every=1",
          "model.vocab_size=53",
          "model.init_from=" + kReference + file,
          "model.tie_weights=" + std::string(tied ? "true" : "false")};
}

Ended run_export(const SmallRun& run, const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"export", "runs/small"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return Program(run.folder(), all).wait();
}

/// The records of a safetensors file by name: type, shape, bytes.
std::map<std::string, std::string> records_of(const std::string& path) {
  const std::string file = read_file(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  std::map<std::string, std::string> records;
  for (const auto header = nlohmann::json::parse(file.substr(8, header_bytes));
       const auto& [name, record] : header.items()) {
    if (name != "__metadata__") {
      const size_t begin = record.at("data_offsets").at(0);
      const size_t end = record.at("data_offsets").at(1);
      records[name] = record.at("dtype").dump() + record.at("shape").dump() +
                      file.substr(8 + header_bytes + begin, end - begin);
    }
  }
  return records;
}

TEST(Export, GivesTheBytesThatWereImported) {
  for (const bool tied : {true, false}) {
    const SmallRun run;
    const std::string name = tied ? "tied/model.safetensors" : "untied/model.safetensors";
    ASSERT_EQ(run.run("train", from(name, tied)).status, 0);
    const Ended ended = run_export(run, {"-o", "model"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find("'model' (fp32)"), std::string::npos) << ended.out;
    EXPECT_TRUE(records_of(run.folder().path("model/model.safetensors")) ==
                records_of(kReference + name));
    EXPECT_TRUE(std::filesystem::exists(run.folder().path("model/config.json")));
  }
}

TEST(Export, GivesTheSameOfLlmcsFile) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", from("tied/model.bin", true)).status, 0);
  ASSERT_EQ(run_export(run, {"-o", "model.safetensors"}).status, 0);
  EXPECT_TRUE(records_of(run.folder().path("model.safetensors")) ==
              records_of(kReference + "tied/model.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("config.json")));
}

TEST(Export, WritesHalfAsMuchInBf16) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", from("tied/model.bin", true)).status, 0);
  ASSERT_EQ(run_export(run, {"-o", "a.safetensors", "--dtype", "bf16"}).status, 0);
  const auto records = records_of(run.folder().path("a.safetensors"));
  EXPECT_EQ(records.at("transformer.ln_f.bias").substr(0, 10), "\"BF16\"[16]");
  EXPECT_EQ(records.at("transformer.ln_f.bias").size(), 10U + 32U);
}

TEST(Export, SaysWhatItCannotDo) {
  const SmallRun run;
  const Ended missing = run_export(run, {"-o", "model"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_NE(missing.err.find("there is no checkpoint in 'runs/small'"), std::string::npos);
  EXPECT_EQ(run_export(run, {}).status, 2);
  EXPECT_EQ(run_export(run, {"-o", "model", "--dtype", "fp8"}).status, 2);

  ASSERT_EQ(run.run("train",
                    {"run.steps=1", "run.eval_every=0", "checkpoint.every=1", "model.bias=false"})
                .status,
            0);
  const Ended refused = run_export(run, {"-o", "model"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("model.bias = false"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("model")));
  EXPECT_EQ(run_export(run, {"-o", "model.safetensors"}).status, 0);
  const Ended unwritable = run_export(run, {"-o", "text.txt/model"});
  EXPECT_EQ(unwritable.status, 1);
}

TEST(Import, OfAnotherModelIsRefusedBeforeAnythingIsWritten) {
  const SmallRun run;
  std::vector<std::string> settings = from("tied/model.bin", true);
  const auto refusal = [&](const std::string& setting) {
    settings.push_back(setting);
    const Ended ended = run.run("train", settings);
    settings.pop_back();
    EXPECT_EQ(ended.status, 2);
    EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
    return ended.err;
  };
  EXPECT_NE(refusal("model.n_head=4").find("another n_head; got 2, expected 4"), std::string::npos);
  EXPECT_NE(refusal("model.tie_weights=false").find("set model.tie_weights = true"),
            std::string::npos);
  EXPECT_NE(refusal("model.block_size=8").find("got [16, 16], expected [8, 16]"),
            std::string::npos);
  EXPECT_NE(refusal("model.bias=false").find("no parameter for"), std::string::npos);
  settings = from("untied/model.safetensors", true);
  EXPECT_NE(refusal("run.steps=1").find("set model.tie_weights = false"), std::string::npos);
}

}  // namespace
}  // namespace zerolab::test
