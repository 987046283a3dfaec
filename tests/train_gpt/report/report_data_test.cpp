#include "apps/train_gpt/report/report_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "apps/train_gpt/report/report_page.h"

namespace zerolab::app {
namespace {

using nlohmann::json;

/// A run of two ranks, as small as can be.
LoggedRun small_run(int stage) {
  LoggedRun run;
  run.source = "runs/stage-" + std::to_string(stage) + "/metrics.jsonl";
  run.config = json::parse(
      R"({"version": "0", "commit": "abc", "modelled_link": null, "machine": {"cores": 2},
    "config": {"run.name": "small", "launch.ranks": 2, "model.n_layer": 2, "model.n_embd": 8,
               "model.block_size": 4, "log.peak_tflops": 0.0}})");
  run.config["config"]["zero.stage"] = stage;
  run.layout = json::parse(R"({"num_params": 100, "padding": 28, "buckets": 2, "hash": "ab",
    "state_bytes": {"parameters": {"formula": 400, "padding": 112, "bytes": 512},
                    "gradients": {"formula": 400, "padding": 112, "bytes": 512}},
    "bytes_sent_per_step": {"formula": 400, "gradients": 256, "parameters": 256}})");
  run.steps = {{1, 5.0, 1.0}, {2, 4.0, 30.0}, {3, 3.0, 10.0}, {4, 3.5, 20.0}};
  run.summary = json::parse(R"({"steps": 4, "ms": {"forward": 1.5, "step": 4},
    "comm": {"all_ranks": {
      "reduce_scatter gradient": {"calls": 16, "bytes_sent": 2048, "wait_ms": 8, "transfer_ms": 4},
      "all_gather parameter": {"calls": 16, "bytes_sent": 2048, "wait_ms": 0, "transfer_ms": 2},
      "all_gather control": {"calls": 8, "bytes_sent": 80, "wait_ms": 0, "transfer_ms": 0}}},
    "memory": [
      {"parameters": {"peak": 512, "at_total_peak": 512}, "total": {"peak": 700}},
      {"parameters": {"peak": 512, "at_total_peak": 512}, "gradients": {"peak": 513, "at_total_peak": 300},
       "total": {"peak": 812}}]})");
  run.last_step = run.summary;
  return run;
}

json data_of(const LoggedRun& run) { return report_data({run}).at("runs").at(0); }

TEST(ReportData, HasTheNumbersOfTheLog) {
  const json data = data_of(small_run(2));
  EXPECT_EQ(data.at("label"), "ZeRO-2");
  EXPECT_EQ(data.at("ranks"), 2);
  EXPECT_EQ(data.at("ms").at("forward"), 1.5);
  EXPECT_EQ(data.at("notes"), json::array());
  EXPECT_EQ(data.at("machine").at("cores"), 2);
  EXPECT_EQ(data.at("commit"), "abc");

  const json& memory = data.at("memory");
  EXPECT_EQ(memory.at("highest"), 1);
  EXPECT_EQ(
      memory.at("ranks").at(1),
      json::parse(R"({"rank": 1, "total": 812, "bytes": {"parameters": 512, "gradients": 300}})"));
  // Against the formula stands the highest that the category was, with what neither explains.
  EXPECT_EQ(memory.at("state").at(0),
            json::parse(R"({"category": "gradients", "formula": 400, "padding": 112,
                            "tracked": 513, "difference": 1})"));
  EXPECT_EQ(memory.at("state").at(1).at("difference"), 0);

  const json& communication = data.at("communication");
  EXPECT_EQ(communication.at("sent"), 512);  // without control; a step and rank
  EXPECT_EQ(communication.at("padding"), 112);
  EXPECT_EQ(communication.at("difference"), 0);
  EXPECT_EQ(communication.at("ops").at(2),
            json::parse(R"({"op": "reduce_scatter gradient", "calls": 2, "bytes": 256,
                            "wait_ms": 1, "transfer_ms": 0.5})"));
}

TEST(ReportData, ThroughputIsTheMedianAfterTheFirstStep) {
  LoggedRun run = small_run(1);
  json throughput = data_of(run).at("throughput");
  EXPECT_EQ(throughput.at("tokens_per_s"), 20.0);
  EXPECT_EQ(throughput.at("flops_per_token"), 6.0 * 100 + 12 * 2 * 8 * 4);
  EXPECT_EQ(throughput.at("mfu"), nullptr);
  run.config["config"]["log.peak_tflops"] = 1e-6;
  throughput = data_of(run).at("throughput");
  EXPECT_DOUBLE_EQ(throughput.at("mfu").get<double>(), 1368.0 * 20.0 / 1e6);
}

TEST(ReportData, TheRatioIsToTheDdpRunOfTheSameModel) {
  LoggedRun ddp = small_run(0);
  ddp.summary["comm"]["all_ranks"].erase("all_gather parameter");
  LoggedRun other = small_run(0);
  other.layout["num_params"] = 50;
  const json runs = report_data({other, small_run(2), ddp}).at("runs");
  EXPECT_EQ(runs.at(1).at("communication").at("ratio"), 2.0);
  EXPECT_EQ(runs.at(2).at("communication").at("ratio"), 1.0);
  EXPECT_EQ(data_of(small_run(2)).at("communication").at("ratio"), nullptr);
}

TEST(ReportData, TheVerdictComparesBits) {
  LoggedRun changed = small_run(1);
  changed.steps[2].loss = std::nextafter(3.0, 4.0);
  LoggedRun shorter = small_run(2);
  shorter.steps.erase(shorter.steps.begin());
  LoggedRun broken = small_run(2);
  broken.steps[1].loss = std::numeric_limits<double>::quiet_NaN();
  const json runs = report_data({small_run(0), changed, shorter, broken}).at("runs");
  const auto against_first = [&](size_t run) {
    return runs.at(run).at("loss").at("against_first");
  };
  EXPECT_EQ(against_first(0).at("same_bits"), true);
  EXPECT_EQ(against_first(1).at("same_bits"), false);
  EXPECT_EQ(against_first(1).at("at_step"), 3);
  EXPECT_EQ(against_first(1).at("largest_difference"), (changed.steps[2].loss - 3.0) / 3.0);
  EXPECT_EQ(against_first(2).at("same_bits"), true);
  EXPECT_EQ(against_first(2).at("compared_steps"), 3);
  EXPECT_EQ(against_first(3).at("same_bits"), false);
  EXPECT_TRUE(std::isinf(against_first(3).at("largest_difference").get<double>()));
  EXPECT_EQ(runs.at(3).at("loss").at("lowest"), (json{3, 3.0}));
}

TEST(ReportData, RunsOfOneStageAreNamedByTheirFolder) {
  LoggedRun twin = small_run(1);
  twin.source = "runs/other/metrics.jsonl";
  const json runs = report_data({small_run(1), twin, twin, small_run(2)}).at("runs");
  EXPECT_EQ(runs.at(0).at("label"), "ZeRO-1 (stage-1)");
  EXPECT_EQ(runs.at(1).at("label"), "ZeRO-1 (other)");
  EXPECT_EQ(runs.at(2).at("label"), "ZeRO-1 (other) #2");
  EXPECT_EQ(runs.at(3).at("label"), "ZeRO-2");
}

TEST(ReportData, ARunThatHasNotEndedShowsItsLastStep) {
  LoggedRun run = small_run(2);
  run.summary = json();
  run.last_step["comm"]["all_ranks"]["reduce_scatter gradient"]["bytes_sent"] = 600;
  const json data = data_of(run);
  EXPECT_EQ(data.at("notes").size(), 1);
  EXPECT_EQ(data.at("communication").at("ops").at(2).at("bytes"), 300);
  EXPECT_EQ(data.at("communication").at("difference"), nullptr);
}

TEST(ReportData, ParametersAreCutByTheirOwners) {
  LoggedRun run = small_run(2);
  run.map = json::parse(R"({"num_parameters": 2, "num_slices": 3,
    "parameters": [{"name": "w", "bucket": 0, "offset": 0, "numel": 70},
                   {"name": "b", "bucket": 1, "offset": 128, "numel": 30}],
    "slices": [{"owner": 0, "bucket": 0, "offset": 0, "numel": 64},
               {"owner": 1, "bucket": 0, "offset": 64, "numel": 64},
               {"owner": 1, "bucket": 1, "offset": 128, "numel": 64}]})");
  const json buckets = data_of(run).at("layout").at("buckets");
  ASSERT_EQ(buckets.size(), 2);
  EXPECT_EQ(buckets.at(0).at("parameters").at(0).at("owned"),
            json::parse("[[0, 0, 64], [1, 64, 6]]"));
  EXPECT_EQ(buckets.at(0).at("slices"), json::parse("[[0, 0, 64], [1, 64, 64]]"));
  EXPECT_EQ(buckets.at(1).at("parameters").at(0).at("owned"), json::parse("[[1, 0, 30]]"));
}

TEST(ReportData, FieldsOfAnyTypeAreNoError) {
  const json values[] = {nullptr, -1, 1e300, "text", json::array({1, "a"}), {{"a~b/c", 1}}, true};
  for (const json& value : values) {
    LoggedRun run;
    run.source = "metrics.jsonl";
    for (json* record : {&run.config, &run.layout, &run.map, &run.summary}) {
      for (const char* key :
           {"config", "machine", "modelled_link", "state_bytes", "bytes_sent_per_step", "buckets",
            "num_params", "memory", "ms", "comm", "steps", "parameters", "slices", "hash"}) {
        (*record)[key] = value;
      }
    }
    run.timelines = {{{"samples", value}, {"stage", value}}};
    run.stages = {{{"step", value}, {"from", value}, {"to", value}}};
    const json data = data_of(run);
    EXPECT_EQ(data.at("label"), "unknown stage") << value;
    EXPECT_EQ(data.at("loss").at("points"), json::array()) << value;
    for (const char* list : {"state_bytes", "memory"}) {
      run.layout[list] = json{{"a~b/c", value}};
      run.summary[list] = json::array({value, {{"a~b/c", value}}});
    }
    EXPECT_EQ(data_of(run).at("memory").at("ranks").size(), 2) << value;
  }
}

TEST(ReportPage, NoTextCanEndTheScript) {
  const std::string text = "</script><script>alert(1)</script><!-- \xff \" \\ {{data}}";
  const std::string page = report_page({{"name", text}});
  const size_t begin = page.find("type=\"application/json\">") + 24;
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(json::parse(data).at("name"),
            "</script><script>alert(1)</script><!-- \xef\xbf\xbd \" \\ {{data}}");
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
}

TEST(ReportPage, FetchesNothingAndKeepsTheLicence) {
  const std::string page = report_page({});
  EXPECT_EQ(page.find("src=\"http"), std::string::npos);
  EXPECT_EQ(page.find("href=\"http"), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("Permission is hereby granted"), std::string::npos);
  EXPECT_NE(page.find("Chart.js v"), std::string::npos);
}

}  // namespace
}  // namespace zerolab::app
