#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/cli/program.h"
#include "tests/train_gpt/metrics/trace_file.h"

namespace zerolab::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kTracedRanks = 2;

class TracedRun : public SmallRun {
 public:
  TraceFile trace(std::vector<std::string> settings) const {
    settings.push_back("log.trace=true");
    const Ended ended = run("train", settings);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    return TraceFile(folder().path("runs/small/trace.json"));
  }
};

const std::vector<std::string> kZero2 = {"zero.stage=2", "zero.overlap_comm=true",
                                         "zero.reduce_bucket_size=1024"};

std::vector<std::string> with(std::vector<std::string> settings,
                              const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

TEST(Trace, SlicesNestUnderEveryStage) {
  const TracedRun run;
  for (const char* stage : {"zero.stage=0", "zero.stage=1", "zero.stage=2"}) {
    for (const char* overlap : {"zero.overlap_comm=false", "zero.overlap_comm=true"}) {
      const TraceFile trace =
          run.trace({stage, overlap, "train.gradient_accumulation_steps=2", "model.dropout=0.1"});
      for (int rank = 0; rank < kTracedRanks; ++rank) {
        EXPECT_EQ(trace.named(rank, kCompute, "forward").size(), 6);
        EXPECT_EQ(trace.named(rank, kCompute, "backward").size(), 6);
        EXPECT_EQ(trace.named(rank, kCompute, "norm").size(), 3);
        EXPECT_EQ(trace.named(rank, kCompute, "update").size(), 3);
      }
    }
  }
}

TEST(Trace, NamesRanksTracksAndModules) {
  const TraceFile trace = TracedRun().trace({});
  EXPECT_EQ(trace.about.at("run"), "small");
  EXPECT_TRUE(trace.about.at("modelled_link").is_null());
  for (int rank = 0; rank < kTracedRanks; ++rank) {
    EXPECT_EQ(trace.processes.at(rank), "rank " + std::to_string(rank));
    EXPECT_EQ(trace.threads.at(rank),
              (std::vector<std::string>{"steps", "compute", "communication"}));
    for (const char* phase : {"forward", "backward"}) {
      std::map<std::string, std::vector<std::string>> around;
      for (const Slice& slice : trace.track(rank, kCompute)) {
        if (slice.lies_in(phase)) {
          around[slice.name] = slice.inside;
        }
      }
      EXPECT_EQ(around.at("h.1.attn.c_proj"), (std::vector<std::string>{phase, "h.1", "h.1.attn"}));
      EXPECT_EQ(around.at("h.0.mlp.c_fc"), (std::vector<std::string>{phase, "h.0", "h.0.mlp"}));
      for (const char* module : {"wte", "wpe", "h.0.ln_1", "ln_f", "lm_head", "loss"}) {
        EXPECT_TRUE(around.contains(module)) << phase << " " << module;
      }
    }
  }
}

TEST(Trace, AModelledLinkIsToldFromAMeasuredOne) {
  const TraceFile trace = TracedRun().trace({"comm.latency_us=5"});
  EXPECT_EQ(trace.about.at("modelled_link").at("latency_us"), 5.0);
  EXPECT_EQ(trace.threads.at(0).back(), "communication (modelled link)");
}

/// Whatever ran when: gathers that end in the next step, evaluations, a change of stage.
TEST(Trace, HasTheBytesOfTheLog) {
  const TracedRun run;
  const TraceFile trace = run.trace(
      with(kZero2, {"log.trace_first_step=1", "log.trace_steps=6",
                    "zero.schedule=[{step=2, stage=0}, {step=4, stage=1}, {step=5, stage=2}]"}));
  std::map<std::string, int64_t> bytes;
  std::map<std::string, int64_t> calls;
  for (int rank = 0; rank < kTracedRanks; ++rank) {
    for (const Slice& slice : trace.track(rank, kCommunication)) {
      if (slice.args.contains("op")) {
        const std::string key = slice.args.at("op").get<std::string>() + " " +
                                slice.args.at("purpose").get<std::string>();
        bytes[key] += slice.args.at("bytes_sent").get<int64_t>();
        ++calls[key];
        EXPECT_NEAR(
            slice.args.at("wait_ms").get<double>() + slice.args.at("transfer_ms").get<double>(),
            static_cast<double>(slice.end - slice.begin) / 1e6, 1e-6);
      } else {
        EXPECT_EQ(slice.inside.size(), slice.name == "wait" || slice.name == "transfer" ? 1 : 0);
      }
    }
  }
  const json log = run.log().back().at("comm").at("all_ranks");
  EXPECT_TRUE(log.contains("all_gather state"));
  EXPECT_EQ(bytes.size(), log.size());
  for (const auto& [key, entry] : log.items()) {
    EXPECT_EQ(bytes[key], entry.at("bytes_sent")) << key;
    if (key != "barrier control") {  // the log ends before the last
      EXPECT_EQ(calls[key], entry.at("calls")) << key;
    }
  }
}

TEST(Trace, CountersAreTheLogsAtStepEnds) {
  const TracedRun run;
  const TraceFile trace = run.trace(kZero2);
  const std::vector<json> steps = of_event(run.log(), "step");
  for (int rank = 0; rank < kTracedRanks; ++rank) {
    for (int step = 2; step <= 4; ++step) {
      const int64_t end = trace.named(rank, kSteps, "step " + std::to_string(step)).at(0).end;
      for (const auto& [category, bytes] : steps[step - 1].at("memory").at(rank).items()) {
        int64_t value = 0;
        for (const auto& [time, counted] : trace.counters.at(rank).at("memory " + category)) {
          value = time <= end ? counted : value;
        }
        EXPECT_EQ(value, bytes.at("current")) << category << " after step " << step;
      }
    }
  }
}

/// Every bucket's buffer comes and goes, and the highest tooth is the log's peak.
TEST(Trace, ShowsTheSawToothOfBuckets) {
  const TracedRun run;
  const TraceFile trace = run.trace(with(kZero2, {"log.trace_steps=1"}));
  const std::vector<json> log = run.log();
  const int64_t buckets = of_event(log, "layout").front().at("buckets");
  EXPECT_GT(buckets, 4);
  const json memory = of_event(log, "step")[1].at("memory");
  for (int rank = 0; rank < kTracedRanks; ++rank) {
    int64_t before = 0;
    int64_t falls = 0;
    int64_t highest = 0;
    for (const auto& [time, bytes] : trace.counters.at(rank).at("memory gradient_buckets")) {
      falls += bytes < before ? 1 : 0;
      highest = std::max(highest, bytes);
      before = bytes;
    }
    EXPECT_EQ(falls, buckets);
    EXPECT_EQ(before, 0);
    EXPECT_EQ(highest, memory.at(rank).at("gradient_buckets").at("peak"));
  }
}

TEST(Trace, ArrowsLeadFromTheLastGradientToItsReduction) {
  const TracedRun run;
  for (const char* overlap : {"zero.overlap_comm=true", "zero.overlap_comm=false"}) {
    const TraceFile trace = run.trace({"zero.stage=2", "zero.reduce_bucket_size=1024", overlap,
                                       "train.gradient_accumulation_steps=2", "log.trace_steps=2"});
    const int64_t buckets = of_event(run.log(), "layout").front().at("buckets");
    EXPECT_EQ(trace.starts.size(), kTracedRanks * buckets * 2 * 2);
    ASSERT_EQ(trace.ends.size(), trace.starts.size());
    for (const auto& [id, start] : trace.starts) {
      const json& end = trace.ends.at(id);
      const int rank = start.at("pid");
      EXPECT_EQ(end.at("pid"), rank);
      EXPECT_LE(start.at("ts").get<double>(), end.at("ts").get<double>());
      const auto from = trace.at(rank, kCompute, nanoseconds(start.at("ts")));
      ASSERT_TRUE(from.has_value());
      EXPECT_TRUE(from->name == "backward" || from->lies_in("backward")) << from->name;
      const std::string bucket = std::to_string(start.at("args").at("bucket").get<int>());
      bool found = false;
      for (const Slice& slice :
           trace.named(rank, kCommunication, "reduce_scatter gradient bucket " + bucket)) {
        found = found || slice.begin == nanoseconds(end.at("ts"));
      }
      EXPECT_TRUE(found) << end;
    }
  }
}

/// What of `slice` lies in none of `others`.
int64_t outside(const Slice& slice, const std::vector<Slice>& others) {
  int64_t covered = 0;
  for (const Slice& other : others) {
    covered +=
        std::max<int64_t>(0, std::min(slice.end, other.end) - std::max(slice.begin, other.begin));
  }
  return slice.end - slice.begin - covered;
}

TEST(Trace, ShowsOverlapOnASlowLinkAndNoneWithoutIt) {
  const TracedRun run;
  // A backward of many milliseconds, in which a busy machine also runs the communication's threads.
  const std::vector<std::string> slow = {"zero.stage=1",
                                         "zero.reduce_bucket_size=65536",
                                         "comm.latency_us=2000",
                                         "run.eval_every=0",
                                         "model.n_layer=4",
                                         "model.n_embd=128",
                                         "train.micro_batch_size=32"};
  for (const bool overlap : {true, false}) {
    const TraceFile trace =
        run.trace(with(slow, {std::string("zero.overlap_comm=") + (overlap ? "true" : "false")}));
    int64_t hidden = 0;
    for (int rank = 0; rank < kTracedRanks; ++rank) {
      std::vector<Slice> exposed;
      for (const Slice& slice : trace.track(rank, kCompute)) {
        if (slice.name.starts_with("exposed ")) {
          exposed.push_back(slice);
        }
      }
      for (const Slice& collective : trace.collectives(rank, "gradient")) {
        for (const Slice& backward : trace.named(rank, kCompute, "backward")) {
          Slice both = collective;
          both.begin = std::max(both.begin, backward.begin);
          both.end = std::min(both.end, backward.end);
          hidden += both.end > both.begin ? outside(both, exposed) : 0;
        }
      }
    }
    EXPECT_EQ(hidden > 0, overlap) << hidden;
  }
}

TEST(Trace, HoldsTheWindowAndNoMore) {
  const TracedRun run;
  struct Window {
    int first, steps, last, eval_every;
  };
  for (const Window& window : {Window{3, 2, 4, 0}, Window{5, 7, 6, 0}, Window{2, 1, 2, 1}}) {
    const TraceFile trace = run.trace({"zero.stage=1", "zero.overlap_comm=true",
                                       "run.eval_every=" + std::to_string(window.eval_every),
                                       "log.trace_first_step=" + std::to_string(window.first),
                                       "log.trace_steps=" + std::to_string(window.steps)});
    std::vector<std::string> names;
    for (int step = window.first; step <= window.last; ++step) {
      names.push_back("step " + std::to_string(step));
    }
    const size_t count = names.size();
    const size_t buckets = of_event(run.log(), "layout").front().at("buckets");
    for (int rank = 0; rank < kTracedRanks; ++rank) {
      EXPECT_EQ(trace.names(rank, kSteps), names);
      EXPECT_EQ(trace.named(rank, kCompute, "forward").size(), count);
      EXPECT_EQ(trace.collectives(rank, "gradient").size(), buckets * count);
      EXPECT_EQ(trace.collectives(rank, "parameter").size(), buckets * count);
      EXPECT_EQ(trace.named(rank, kCompute, "evaluation").size(), window.eval_every * count);
    }
  }
}

TEST(Trace, IsWrittenWhenItsWindowEnds) {
  const TracedRun run;
  const auto program = run.start("train", {"run.steps=100000000", "log.trace=true"});
  const std::string path = run.folder().path("runs/small/trace.json");
  while (program->is_running() && !read_file(path).ends_with("]}\n")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(program->is_running());
  EXPECT_EQ(TraceFile(path).names(1, kSteps),
            (std::vector<std::string>{"step 2", "step 3", "step 4"}));
}

TEST(Trace, IsWrittenWhenTheRunEndsBefore) {
  const TracedRun run;
  const std::string path = run.folder().path("runs/small/trace.json");
  const Ended failed = run.run(
      "train", {"log.trace=true", "log.trace_steps=100", "run.steps=1000", "optimizer.lr=1e30",
                "optimizer.gradient_clipping=0", "train.max_skipped_steps=2"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_NE(failed.err.find("steps in a row"), std::string::npos) << failed.err;
  const std::vector<std::string> steps = TraceFile(path).names(0, kSteps);
  EXPECT_EQ(steps.size(), of_event(run.log(), "step").size() - 1);
  EXPECT_EQ(steps.front(), "step 2");

  const auto program =
      run.start("train", {"run.name=stopped", "log.trace=true", "log.trace_steps=100",
                          "log.trace_first_step=99000", "run.steps=100000"});
  while (program->is_running() && run.log("runs/stopped/metrics.jsonl").size() < 5) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  program->send(SIGINT);
  EXPECT_EQ(program->wait(20.0).status, 0);
  const TraceFile early(run.folder().path("runs/stopped/trace.json"));
  EXPECT_EQ(early.processes.size(), kTracedRanks);
  EXPECT_TRUE(early.counters.empty());
}

TEST(Trace, IsAFilePerRunOfAComparisonAndOnlyOnDemand) {
  const TracedRun run;
  ASSERT_EQ(run.run("compare", {"log.trace=true"}).status, 0);
  for (const char* stage : {"stage-0", "stage-1", "stage-2"}) {
    const TraceFile trace(run.folder().path(std::string("runs/small/") + stage + "/trace.json"));
    EXPECT_FALSE(trace.collectives(0, "gradient").empty()) << stage;
  }
  ASSERT_EQ(run.run("train").status, 0);
  EXPECT_FALSE(fs::exists(run.folder().path("runs/small/trace.json")));
}

TEST(Trace, AFullDiskFailsTheTraceAndNotTheRun) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "this system has no /dev/full";
  }
  const SmallRun run;
  for (const std::string folder : {"runs/small", "runs/small/stage-0"}) {
    fs::create_directories(run.folder().path(folder));
    fs::create_symlink("/dev/full", run.folder().path(folder + "/trace.json"));
  }
  const Ended train = run.run("train", {"log.trace=true"});
  EXPECT_EQ(train.status, 1);
  EXPECT_EQ(train.err,
            "error: [trace] runs/small/trace.json: cannot be written; No space left on device; "
            "change run.out_dir, or set log.trace = false\n");
  EXPECT_EQ(run.log().back().at("steps"), 6);
  const Ended compare = run.run("compare", {"log.trace=true"});
  EXPECT_EQ(compare.status, 1);
  EXPECT_NE(compare.err.find("stage-0/trace.json"), std::string::npos) << compare.err;
  EXPECT_EQ(json::parse(read_file(run.folder().path("runs/small/compare.json"))).at("runs").size(),
            3);
}

}  // namespace
}  // namespace zerolab::test
