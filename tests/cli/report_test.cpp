#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/cli/page_probe.h"
#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

Ended report(const SmallRun& run, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "report");
  return Program(run.folder(), arguments).wait();
}

/// Charts are drawn, at each width and in each colour scheme, and nothing is wider than the page.
void expect_charts(const json& page) {
  std::map<std::string, std::string> backgrounds;
  for (const auto& [view, look] : page.at("views").items()) {
    EXPECT_LE(look.at("overflow"), 0) << view;
    backgrounds[view.substr(view.find(' ') + 1)] = look.at("background");
    std::map<std::string, int> charts;
    for (const json& canvas : look.at("canvases")) {
      ++charts[canvas.at("section")];
      EXPECT_GT(canvas.at("pixels"), 3000) << view << " " << canvas;
      EXPECT_GT(canvas.at("colors"), 8) << view << " " << canvas;
    }
    EXPECT_EQ(charts, (std::map<std::string, int>{{"memory", 1},
                                                  {"timeline", 4},
                                                  {"communication", 1},
                                                  {"time", 1},
                                                  {"throughput", 1},
                                                  {"loss", 1}}));
  }
  EXPECT_EQ(backgrounds, (std::map<std::string, std::string>{{"light", "rgb(255, 255, 255)"},
                                                             {"dark", "rgb(20, 24, 29)"}}));
  EXPECT_EQ(page.at("toggled"), "rgb(255, 255, 255)");  // after the last view, a dark one
}

void expect_overview(const json& page, int stage) {
  const auto overview = rows_of(page, "overview", 0);
  ASSERT_EQ(overview.size(), 3);
  const std::string label = stage == 0 ? "DDP" : "ZeRO-" + std::to_string(stage);
  EXPECT_EQ(overview[stage].at("run"), label);
  EXPECT_EQ(overview[stage].at("against the first run"), "same bits in 6 steps");
}

void expect_memory(const json& page, int stage, const json& summary, const json& layout) {
  const auto memory = rows_of(page, "memory", 0);
  const auto state = rows_of(page, "memory", 1);
  ASSERT_EQ(memory.size(), 6);
  ASSERT_EQ(state.size(), 9);
  for (int rank = 0; rank < 2; ++rank) {
    const json& held = summary.at("memory").at(rank);
    const auto& row = memory[2 * stage + rank];
    EXPECT_EQ(row.at("rank"), rank);
    EXPECT_EQ(row.at("total"), held.at("total").at("peak"));
    EXPECT_EQ(row.at("activations"), held.at("activations").at("at_total_peak"));
  }
  for (int i = 0; i < 3; ++i) {
    const auto& row = state[3 * stage + i];
    std::string category = row.at("category");
    std::ranges::replace(category, ' ', '_');
    EXPECT_EQ(row.at("formula"), layout.at("state_bytes").at(category).at("formula"));
    EXPECT_EQ(row.at("tracked"), layout.at("state_bytes").at(category).at("bytes"));
    EXPECT_EQ(row.at("difference"), 0);
  }
}

/// Communication, time, throughput and loss, each a table with a row for each run.
void expect_measurements(const json& page, int stage, const json& summary) {
  const auto sent = rows_of(page, "communication", 0).at(stage);
  EXPECT_EQ(sent.at("sent"), summary.at("bytes_sent_per_step"));
  EXPECT_EQ(sent.at("ratio to DDP"), 1);
  EXPECT_EQ(sent.at("difference"), 0);
  const auto time = rows_of(page, "time", 0).at(stage);
  EXPECT_EQ(time.at("forward"), summary.at("ms").at("forward"));
  EXPECT_EQ(time.at("exposed communication"), summary.at("ms").at("comm_exposed"));
  const auto throughput = rows_of(page, "throughput", 0).at(stage);
  EXPECT_EQ(throughput.at("tokens/s"), summary.at("tokens_per_s"));
  EXPECT_EQ(throughput.at("MFU"), throughput.at("operations a token").get<double>() *
                                      summary.at("tokens_per_s").get<double>() / 1e9);
  const auto loss = rows_of(page, "loss", 0).at(stage);
  EXPECT_EQ(loss.at("last"), summary.at("final_loss"));
  EXPECT_EQ(loss.at("validation"), summary.at("eval_loss"));
}

void expect_timeline(const json& page, int stage, const json& timeline) {
  EXPECT_EQ(timeline.at("step"), 2);
  const auto samples = rows_of(page, "timeline", stage);
  ASSERT_EQ(samples.size(), timeline.at("samples").size());
  for (size_t i = 0; i < samples.size(); ++i) {
    const json& sample = timeline.at("samples").at(i);
    EXPECT_EQ(samples[i].at("phase"), sample.at("phase"));
    EXPECT_EQ(samples[i].at("total"), sample.at("bytes").at("total"));
  }
}

/// One layout, of which each parameter's elements are owned once.
void expect_owners(const json& page, const json& layout) {
  EXPECT_EQ(page.at("tables").at("layout").size(), 1);
  double numel = 0;
  for (const auto& row : rows_of(page, "layout", 0)) {
    numel += row.at("elements").get<double>();
  }
  EXPECT_EQ(numel, layout.at("num_params"));
}

TEST(Report, ShowsTheNumbersOfTheLogInABrowser) {
  const SmallRun run;
  const Ended ended = run.run("compare", {"log.peak_tflops=0.001"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("report: runs/small/report.html\n"), std::string::npos) << ended.out;
  const json page = PageProbe(run.folder().path("runs/small/report.html")).next();
  ASSERT_TRUE(page.is_object());
  EXPECT_EQ(page.at("console"), json::array());
  EXPECT_EQ(page.at("title"), "stage-0, stage-1, stage-2 – zerolab report");
  expect_charts(page);
  for (int stage = 0; stage < 3; ++stage) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    const auto log = run.log("runs/small/stage-" + std::to_string(stage) + "/metrics.jsonl");
    const json summary = of_event(log, "summary").at(0);
    const json layout = of_event(log, "layout").at(0);
    expect_overview(page, stage);
    expect_memory(page, stage, summary, layout);
    expect_measurements(page, stage, summary);
    expect_timeline(page, stage, of_event(log, "timeline").back());
    if (stage == 0) {
      expect_owners(page, layout);
    }
  }
}

TEST(Report, TheSawToothOfZero2IsInTheTimeline) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"zero.stage=2", "zero.reduce_bucket_size=2000"}).status, 0);
  const auto log = run.log();
  const auto timelines = of_event(log, "timeline");
  ASSERT_EQ(timelines.size(), 2);  // of steps 1 and 2
  const auto buckets = of_event(log, "layout").at(0).at("buckets").get<int>();
  ASSERT_GT(buckets, 3);
  int opened = 0;
  int reduced = 0;
  json before;
  for (const json& sample : timelines.back().at("samples")) {
    const std::string phase = sample.at("phase");
    const auto held = [](const json& at) { return at.at("bytes").value("gradient_buckets", 0); };
    if (phase.ends_with(" opened")) {
      ++opened;
      EXPECT_GT(held(sample), held(before)) << phase;
    } else if (phase.ends_with(" reduced")) {
      ++reduced;
      EXPECT_LT(held(sample), held(before)) << phase;
    }
    before = sample;
  }
  EXPECT_EQ(opened, buckets);
  EXPECT_EQ(reduced, buckets);
  EXPECT_EQ(before.at("phase"), "step");
}

TEST(Report, ATimelineForEachStageOfASchedule) {
  const SmallRun run;
  const std::string schedule = "zero.schedule=[{step = 4, stage = 2}]";
  ASSERT_EQ(run.run("train", {schedule}).status, 0);
  std::vector<std::pair<int, int>> seen;
  for (const json& timeline : of_event(run.log(), "timeline")) {
    seen.emplace_back(timeline.at("step"), timeline.at("stage"));
  }
  EXPECT_EQ(seen, (std::vector<std::pair<int, int>>{{1, 0}, {2, 0}, {4, 2}, {5, 2}}));
  ASSERT_EQ(report(run, {"runs/small"}).status, 0);
  const json page = PageProbe(run.folder().path("report.html")).next();
  EXPECT_EQ(page.at("console"), json::array());
  EXPECT_EQ(page.at("views").at("360 light").at("canvases").at(3).at("title"),
            "All memory of rank 0: DDP, as ZeRO-2, step 5");
}

TEST(Report, NothingInALogIsTakenForHtml) {
  const SmallRun run;
  const std::string attack = "</script><img src=x onerror=alert(1)><b>\"'&";
  ASSERT_EQ(run.run("train").status, 0);
  std::string text;
  for (json record : run.log()) {
    if (record.at("event") == "config") {
      record["config"]["run.name"] = attack;
      record["config"][attack] = attack;
      record["machine"]["processor"] = attack;
    } else if (record.at("event") == "map") {
      record["parameters"][0]["name"] = attack;
    } else if (record.at("event") == "timeline") {
      record["samples"][0]["phase"] = attack;
      record["samples"][0]["bytes"][attack] = 5;
    } else if (record.at("event") == "summary") {
      record["comm"]["all_ranks"][attack] = {{"bytes_sent", 5}};
      record["memory"][0][attack] = {{"at_total_peak", 5}};
    }
    text += record.dump() + "\n";
  }
  run.folder().write("attack.jsonl", text);
  run.folder().write("cut.jsonl", text.substr(0, text.rfind("\"event\":\"step\"")));
  const Ended ended = report(run, {"attack.jsonl", "cut.jsonl", "-o", "page.html"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const json page = PageProbe(run.folder().path("page.html")).next();
  EXPECT_EQ(page.at("console"), json::array());
  EXPECT_FALSE(page.at("elements").contains("img"));
  EXPECT_FALSE(page.at("elements").contains("b"));
  EXPECT_EQ(page.at("elements").at("script"), 3);
  const std::string seen = page.at("text");
  EXPECT_NE(seen.find(attack), std::string::npos);
  EXPECT_NE(seen.find("1 lines of the log are no record"), std::string::npos);
  for (const auto& [view, look] : page.at("views").items()) {
    EXPECT_LE(look.at("overflow"), 0) << view;
  }
}

TEST(Report, WhatItCannotDoIsAnError) {
  const SmallRun run;
  const Ended empty = report(run, {"empty.txt"});
  EXPECT_EQ(empty.status, 2);
  EXPECT_TRUE(empty.err.starts_with("error: [report] empty.txt: holds no run")) << empty.err;
  EXPECT_EQ(report(run, {"nothing"}).status, 2);
  EXPECT_EQ(report(run, {}).status, 2);
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("report.html")));
  ASSERT_EQ(run.run("train").status, 0);
  const Ended full = report(run, {"runs/small", "-o", "/dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_TRUE(full.err.starts_with("error: [report] cannot write /dev/full")) << full.err;
}

TEST(Report, ALongRunMakesASmallPage) {
  const SmallRun run;
  ASSERT_EQ(run.run("train").status, 0);
  std::ofstream log(run.folder().path("long.jsonl"));
  for (json record : run.log()) {
    if (record.at("event") != "step") {
      log << record.dump() << "\n";
    } else if (record.at("step") == 6) {
      for (int step = 1; step <= 100000; ++step) {
        record["step"] = step;
        log << record.dump() << "\n";
      }
    }
  }
  log.close();
  const Ended ended = report(run, {"long.jsonl"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_LT(std::filesystem::file_size(run.folder().path("report.html")), 1 << 20);
}

}  // namespace
}  // namespace zerolab::test
