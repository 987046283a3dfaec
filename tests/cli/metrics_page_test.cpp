#include <gtest/gtest.h>

#include <set>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

/// The keys of an object and of all that it holds; those of `config` are documented by --help.
void collect(const json& value, std::set<std::string>& keys) {
  if (value.is_array()) {
    for (const json& element : value) {
      collect(element, keys);
    }
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      keys.insert(key);
      if (key != "config") {
        collect(inner, keys);
      }
    }
  }
}

TEST(MetricsPages, NameEveryField) {
  const SmallRun run;
  const std::vector<std::string> skipping = {"optimizer.lr=1e30", "optimizer.gradient_clipping=0",
                                             "debug.poison=true", "comm.latency_us=1"};
  ASSERT_EQ(run.run("compare", skipping, {"--variants"}).status, 0);
  const std::string schedule = "zero.schedule=[{step=2, stage=1}, {step=3, stage=2}]";
  ASSERT_EQ(run.run("train", {"run.name=scheduled", schedule, "run.sample_every=3"}).status, 0);
  ASSERT_EQ(run.run("train", {"run.name=saved", "checkpoint.every=3"}).status, 0);
  ASSERT_EQ(run.run("train", {"run.name=saved", "run.steps=7"}, {"--resume", "latest"}).status, 0);
  ASSERT_EQ(run.run("plan", {}, {"--json", "plan.json"}).status, 0);
  std::set<std::string> keys;
  collect(json::parse(read_file(run.folder().path("plan.json"))), keys);
  collect(json::parse(read_file(run.folder().path("runs/small/compare.json"))), keys);
  for (const char* name : {"small/ddp", "small/zero-1-per-owner-reduce",
                           "small/zero-2-reduce-scatter", "scheduled", "saved"}) {
    for (const json& record : run.log(std::string("runs/") + name + "/metrics.jsonl")) {
      collect(record, keys);
    }
  }
  // Of skipped steps, a modelled link, switched stages and every op.
  for (const char* key :
       {"owner_rank", "source_ranks", "latency_us", "before", "reduce gradient"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
  keys.erase("event");
  const std::string page =
      read_file(SOURCE_FOLDER "/docs/metrics.md") + read_file(SOURCE_FOLDER "/docs/plan.md");
  for (const std::string& key : keys) {
    // An op and its purpose, "all_gather control", are two words of the page.
    for (size_t begin = 0; begin < key.size();) {
      const size_t end = std::min(key.find(' ', begin), key.size());
      const std::string word = "`" + key.substr(begin, end - begin) + "`";
      EXPECT_NE(page.find(word), std::string::npos) << word;
      begin = end + 1;
    }
  }
}

}  // namespace
}  // namespace zerolab::test
