#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

struct Row {
  std::string label;
  std::vector<std::string> cells;
};

/// The lines of the table that are indented, cut where two blanks follow each other.
std::vector<Row> table_rows_of(const std::string& out) {
  std::vector<Row> rows;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) {
      continue;
    }
    Row row;
    for (size_t begin = line.find_first_not_of(' '); begin != std::string::npos;) {
      const size_t end = std::min(line.find("  ", begin), line.size());
      const std::string cell = line.substr(begin, end - begin);
      row.label.empty() ? row.label = cell : row.cells.emplace_back(cell);
      begin = line.find_first_not_of(' ', end);
    }
    rows.push_back(row);
  }
  return rows;
}

std::vector<Row> named(const std::vector<Row>& rows, const std::string& label) {
  std::vector<Row> found;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(found),
               [&](const Row& row) { return row.label == label; });
  return found;
}

TEST(Compare, SetsTheStagesSideBySideAndBalancesTheLedgers) {
  const SmallRun run;
  const Ended ended = run.run("compare");
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const std::vector<Row> rows = table_rows_of(ended.out);
  ASSERT_FALSE(rows.empty());
  const auto titles =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.label == "DDP"; });
  ASSERT_NE(titles, rows.end());
  EXPECT_EQ(titles->cells, (std::vector<std::string>{"ZeRO-1", "ZeRO-2"}));
  const std::vector<Row> differences = named(rows, "difference");
  EXPECT_GE(differences.size(), 7) << ended.out;  // of state, activations, workspace, sent bytes
  for (const Row& row : differences) {
    EXPECT_EQ(row.cells, (std::vector<std::string>{"0", "0", "0"})) << ended.out;
  }
  const std::vector<Row> losses = named(rows, "losses against the first");
  ASSERT_EQ(losses.size(), 1);
  EXPECT_EQ(losses[0].cells, (std::vector<std::string>{"same bits", "same bits", "same bits"}));
}

TEST(Compare, WritesTheSameAsJson) {
  const SmallRun run;
  const Ended ended = run.run("compare", {"run.steps=4", "launch.ranks=4"}, {"--stages", "0,2"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const json compared = json::parse(read_file(run.folder().path("runs/small/compare.json")));
  EXPECT_EQ(compared.at("config").at("run.steps"), 4);
  const json& runs = compared.at("runs");
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0].at("title"), "DDP");
  EXPECT_EQ(runs[1].at("title"), "ZeRO-2");
  for (const json& one : runs) {
    EXPECT_EQ(one.at("losses").size(), 4);
    EXPECT_EQ(one.at("losses"), runs[0].at("losses"));
    EXPECT_EQ(one.at("same_bits"), true);
    EXPECT_EQ(one.at("largest_loss_difference"), 0.0);
    EXPECT_EQ(one.at("memory").size(), 4);
    const json& sent = one.at("layout").at("bytes_sent_per_step");
    EXPECT_EQ(one.at("bytes_sent_per_step"),
              sent.at("gradients").get<int64_t>() + sent.at("parameters").get<int64_t>());
    for (const auto& [category, bytes] : one.at("memory")[0].items()) {
      if (category != "total") {
        EXPECT_EQ(bytes.at("at_total_peak"), one.at("predicted_memory").at(category)) << category;
      }
    }
  }
  const auto state = [&](int stage) {
    return runs[stage].at("memory")[0].at("optimizer_state").at("peak").get<int64_t>();
  };
  EXPECT_EQ(state(1), state(0) / 4);
}

TEST(Compare, KeepsALogOfEachStage) {
  const SmallRun run;
  ASSERT_EQ(run.run("compare", {"run.steps=2"}, {"--stages", "0,1"}).status, 0);
  for (const int stage : {0, 1}) {
    const auto log = run.log("runs/small/stage-" + std::to_string(stage) + "/metrics.jsonl");
    EXPECT_EQ(of_event(log, "step").size(), 2);
    EXPECT_EQ(log.back().at("stage"), stage);
  }
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs/small/stage-2")));
}

/// In 40 steps the two orders part on every processor, at a step that depends on its kernels; how
/// far is taken from the logs.
TEST(Compare, SaysWhereTheOrderOfAdditionsDiffers) {
  const SmallRun run;
  std::vector<std::string> settings = {"train.gradient_accumulation_steps=2", "launch.ranks=4",
                                       "run.steps=40"};
  const std::string out = run.run("compare", settings, {"--stages", "0,2"}).out;
  const auto first = of_event(run.log("runs/small/stage-0/metrics.jsonl"), "step");
  const auto second = of_event(run.log("runs/small/stage-2/metrics.jsonl"), "step");
  ASSERT_EQ(first.size(), 40);
  ASSERT_EQ(second.size(), 40);
  double largest = 0.0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double loss = first[i].at("loss");
    largest = std::max(largest, std::abs(second[i].at("loss").get<double>() - loss) / loss);
  }
  EXPECT_GT(largest, 0.0);
  EXPECT_LT(largest, 1e-5);
  char within[32];
  std::snprintf(within, sizeof(within), "within %.1e", largest);
  EXPECT_NE(out.find(within), std::string::npos) << within << " " << out;
  settings.emplace_back("zero.reduce_each_micro_batch=true");
  const std::string same = run.run("compare", settings, {"--stages", "0,2"}).out;
  EXPECT_NE(same.find("same bits"), std::string::npos);
  EXPECT_EQ(same.find("within "), std::string::npos) << same;
}

/// docs/design.md 6 at k = 1: 16 bytes a parameter in stage 0 in every precision; master weights
/// where parameters have 16 bits; losses within 1 % of fp32's.
TEST(Compare, SetsPrecisionsSideBySide) {
  const SmallRun run;
  const Ended ended = run.run("compare", {"run.steps=6", "launch.ranks=2", "zero.stage=2"},
                              {"--precisions", "fp32,bf16,fp16"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const json compared = json::parse(read_file(run.folder().path("runs/small/compare.json")));
  const json& runs = compared.at("runs");
  ASSERT_EQ(runs.size(), 3);
  const auto bytes = [&](int column, const std::string& category) {
    return runs[column].at("memory")[0].value(category, json{{"current", 0}}).at("current");
  };
  for (const int half : {1, 2}) {
    EXPECT_EQ(2 * bytes(half, "parameters").get<int64_t>(), bytes(0, "parameters"));
    EXPECT_EQ(2 * bytes(half, "gradients").get<int64_t>(), bytes(0, "gradients"));
    EXPECT_EQ(bytes(half, "optimizer_state"), bytes(0, "optimizer_state"));
    EXPECT_EQ(2 * bytes(half, "master_weights").get<int64_t>(), bytes(0, "optimizer_state"));
    EXPECT_GT(runs[half].at("largest_loss_difference"), 0.0);
    EXPECT_LT(runs[half].at("largest_loss_difference"), 0.01);
  }
  EXPECT_EQ(bytes(0, "master_weights"), 0);
  for (const Row& row : named(table_rows_of(ended.out), "difference")) {
    EXPECT_EQ(row.cells, (std::vector<std::string>{"0", "0", "0"}));
  }
}

TEST(Compare, RefusesWhatCannotBeCompared) {
  const SmallRun run;
  const Ended twice = run.run("compare", {}, {"--stages", "0,1,0"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.err.find("stage-0 is named twice"), std::string::npos) << twice.err;
  const Ended unknown = run.run("compare", {}, {"--stages", "3"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_NE(unknown.err.find("3 not in range"), std::string::npos) << unknown.err;
  const Ended none = run.run("compare", {"run.steps=0"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.err.find("run.steps"), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
}

}  // namespace
}  // namespace zerolab::test
