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

TEST(MetricsPage, NamesEveryField) {
  const SmallRun run;
  ASSERT_EQ(run.run("compare", {"optimizer.lr=1e30", "optimizer.gradient_clipping=0"}).status, 0);
  std::set<std::string> keys;
  collect(json::parse(read_file(run.folder().path("runs/small/compare.json"))), keys);
  for (const char* stage : {"0", "1", "2"}) {
    for (const json& record :
         run.log(std::string("runs/small/stage-") + stage + "/metrics.jsonl")) {
      collect(record, keys);
    }
  }
  EXPECT_TRUE(keys.contains("owner_rank"));  // the run skipped steps
  keys.erase("event");
  const std::string page = read_file(SOURCE_FOLDER "/docs/metrics.md");
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
