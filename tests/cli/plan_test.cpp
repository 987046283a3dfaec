#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

json json_of(const SmallRun& run) { return json::parse(read_file(run.folder().path("plan.json"))); }

/// The arguments of the command in the comment of configs/zero-paper.toml.
std::vector<std::string> command_of_the_paper() {
  std::istringstream lines(read_file(SOURCE_FOLDER "/configs/zero-paper.toml"));
  std::vector<std::string> words;
  bool in_command = false;
  for (std::string line; std::getline(lines, line);) {
    in_command = in_command || line.find("train-gpt plan") != std::string::npos;
    if (in_command) {
      const std::vector<std::string> more = words_of(line);
      words.insert(words.end(), more.begin() + 1, more.end());  // after the #
      if (words.back() != "\\") {
        break;
      }
      words.pop_back();
    }
  }
  words.erase(words.begin());
  words.at(1) = SOURCE_FOLDER "/" + words.at(1);
  return words;
}

/// Rajbhandari et al. 2020, table 1, columns P_os and P_os+g: GB of 1e9 bytes, as printed.
struct PaperRow {
  int ranks;
  double os[3];
  double os_g[3];
};
constexpr PaperRow kPaper[] = {
    {1, {120, 2048, 16000}, {120, 2048, 16000}}, {4, {52.5, 896, 7000}, {41.3, 704, 5500}},
    {16, {35.6, 608, 4750}, {21.6, 368, 2875}},  {64, {31.4, 536, 4187}, {16.6, 284, 2218}},
    {256, {30.4, 518, 4046}, {15.4, 263, 2054}}, {1024, {30.1, 513, 4011}, {15.1, 257, 2013}}};

TEST(Plan, PrintsTheTableOfTheZeroPaper) {
  const data::TempDir folder;
  const Ended ended = Program(folder, command_of_the_paper()).wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  // The printed rows below "Model states", model by model; 3 stages a number of ranks.
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(ended.out);
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    in_table = (in_table && !line.empty()) || line == "Model states of a rank, GB";
    const std::vector<std::string> words = words_of(line);
    if (in_table && words.size() == 7) {
      rows.push_back(words);
    }
  }
  ASSERT_EQ(rows.size(), 3 * 3 * std::size(kPaper)) << ended.out;
  const double billions[] = {7.5, 128, 1000};
  auto row = rows.begin();
  for (int model = 0; model < 3; ++model) {
    for (const PaperRow& paper : kPaper) {
      const double n = paper.ranks;
      const double formulas[] = {16.0, 4.0 + 12.0 / n, 2.0 + 14.0 / n};
      const double printed[] = {16 * billions[model], paper.os[model], paper.os_g[model]};
      for (int stage = 0; stage < 3; ++stage, ++row) {
        SCOPED_TRACE(testing::Message() << billions[model] << " on " << n << ", stage " << stage);
        EXPECT_EQ((*row)[0], std::to_string(paper.ranks));
        EXPECT_EQ((*row)[1], stage == 0 ? "DDP" : "ZeRO-" + std::to_string(stage));
        const double states = std::stod(row->back());
        // To the printed digit, padding included.
        EXPECT_NEAR(states, formulas[stage] * billions[model], 0.0501 + 1e-6 * states);
        // The paper's digits; it cuts those after the point if there are three before it.
        EXPECT_NEAR(states, printed[stage], billions[model] < 100 ? 0.001 : 0.95);
      }
    }
  }
}

TEST(Plan, HasTheBytesOfTheComparison) {
  const SmallRun run;
  ASSERT_EQ(run.run("plan", {}, {"--json", "plan.json"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
  EXPECT_GT(json_of(run).at("machine").at("flops_per_s"), 0.0);  // measured
  EXPECT_GT(json_of(run).at("machine").at("memory_bytes_per_s"), 0.0);
  ASSERT_EQ(run.run("compare").status, 0);
  const json compared = json::parse(read_file(run.folder().path("runs/small/compare.json")));
  const json planned = json_of(run);
  const json& rows = planned.at("models").at(0).at("rows");
  ASSERT_EQ(rows.size(), 3);
  for (int stage = 0; stage < 3; ++stage) {
    const json& one = compared.at("runs")[stage];
    EXPECT_EQ(rows[stage].at("ranks"), 2);
    EXPECT_EQ(rows[stage].at("stage"), stage);
    EXPECT_EQ(rows[stage].at("memory"), one.at("memory")[0]);
    EXPECT_EQ(rows[stage].at("bytes_sent_per_step"), one.at("layout").at("bytes_sent_per_step"));
    EXPECT_EQ(rows[stage].at("padding"), one.at("layout").at("padding"));
    EXPECT_EQ(planned.at("models")[0].at("num_params"), one.at("layout").at("num_params"));
  }
}

TEST(Plan, FollowsItsOptions) {
  const SmallRun run;
  const Ended ended =
      run.run("plan", {},
              {"--ranks", "3,100000", "--stages", "2", "--link", "8", "--latency-us", "2",
               "--memory", "4GB", "--tflops", "0.5", "--memory-bandwidth", "100", "--model",
               "n_layer=5,n_embd=32", "--json", "plan.json"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const json planned = json_of(run);
  const json machine = {{"flops_per_s", 0.5e12},
                        {"memory_bytes_per_s", 100e9},
                        {"memory", 4'000'000'000},
                        {"bandwidth_gbps", 8.0},
                        {"latency_us", 2.0}};
  EXPECT_EQ(planned.at("machine"), machine);
  ASSERT_EQ(planned.at("models").size(), 2);
  EXPECT_EQ(planned.at("models")[0].at("config").at("model.n_layer"), 2);
  EXPECT_EQ(planned.at("models")[1].at("config").at("model.n_layer"), 5);
  EXPECT_EQ(planned.at("models")[1].at("config").at("model.n_embd"), 32);
  for (const json& model : planned.at("models")) {
    ASSERT_EQ(model.at("rows").size(), 2);
    EXPECT_EQ(model.at("rows")[0].at("ranks"), 3);
    EXPECT_EQ(model.at("rows")[1].at("ranks"), 100'000);
    for (const json& row : model.at("rows")) {
      EXPECT_EQ(row.at("stage"), 2);
      // Two collectives a bucket, each of N - 1 rounds of 2 us, and those of the control.
      const double rounds = row.at("ranks").get<double>() - 1;
      EXPECT_GT(row.at("ms").at("comm_transfer"),
                2e-3 * rounds * (2 * row.at("buckets").get<double>() + 1));
    }
  }
}

/// The ranks' ranges of the map tile every parameter.
TEST(Plan, MapsWhoOwnsWhat) {
  const SmallRun run;
  for (const std::string layout : {"bucketed", "contiguous"}) {
    const Ended ended = run.run("plan", {"zero.layout=" + layout}, {"--map", "--ranks", "5"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_NE(ended.out.find(layout + " layout: "), std::string::npos);
    std::istringstream lines(ended.out);
    int64_t owned = 0;
    int64_t of_bias = 0;  // h.1.mlp.c_fc.bias has 4 x 16 elements
    int ranks = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("rank ")) {
        continue;
      }
      ++ranks;
      int64_t in_ranges = 0;
      for (size_t at = line.find('['); at != std::string::npos; at = line.find('[', at + 1)) {
        int64_t begin = 0;
        int64_t end = 0;
        ASSERT_EQ(std::sscanf(line.c_str() + at, "[%ld, %ld)", &begin, &end), 2) << line;
        in_ranges += end - begin;
        of_bias += line.substr(0, at).ends_with(" h.1.mlp.c_fc.bias") ? end - begin : 0;
      }
      EXPECT_EQ(std::to_string(in_ranges), words_of(line).at(2)) << line;
      owned += in_ranges;
    }
    EXPECT_EQ(ranks, 5);
    EXPECT_EQ(of_bias, 64);
    EXPECT_NE(ended.out.find(" " + std::to_string(owned) + " elements + "), std::string::npos);
  }
}

TEST(Plan, OfAGroupedMapShowsTheFirstRanksAndTheLast) {
  const SmallRun run;
  const Ended ended = run.run("plan", {}, {"--map", "--ranks", "1000"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("\nrank 15: "), std::string::npos);
  EXPECT_NE(ended.out.find("\n… 983 ranks …\nrank 999: "), std::string::npos);
  EXPECT_EQ(ended.out.find("\nrank 16: "), std::string::npos);
}

TEST(Plan, ChecksItselfAgainstRuns) {
  const SmallRun run;
  const Ended ended = run.run("plan", {"zero.overlap_comm=true", "zero.layout=contiguous"},
                              {"--check", "--stages", "0,2"});
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("every byte of every rank is as planned: yes\n"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
}

TEST(Plan, NeedsNoDataWhereTheVocabularyIsSet) {
  const SmallRun run;
  const Ended set = run.run("plan", {"model.vocab_size=99", "data.path=nowhere.txt"},
                            {"--tflops", "1", "--json", "plan.json"});
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_EQ(json_of(run).at("models")[0].at("vocab_size"), 99);
  const Ended missing = run.run("plan", {"data.path=nowhere.txt"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("data.path names no file"), std::string::npos) << missing.err;
  const Ended neither = run.run("plan", {"data.path=[]"});
  EXPECT_EQ(neither.status, 2);
  EXPECT_NE(neither.err.find("model.vocab_size; got 0, expected the number of tokens"),
            std::string::npos)
      << neither.err;
}

TEST(Plan, RefusesWhatItCannotPlan) {
  const SmallRun run;
  const auto refuses = [&](const std::vector<std::string>& options, const std::string& text,
                           const std::vector<std::string>& settings = {}) {
    const Ended ended = run.run("plan", settings, options);
    EXPECT_EQ(ended.status, 2) << text << ended.out;
    EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  };
  refuses({"--ranks", "0"}, "--ranks");
  refuses({"--ranks", "100001"}, "--ranks");
  refuses({"--ranks", "8,-3"}, "--ranks");
  refuses({"--ranks", "2.5"}, "--ranks");
  refuses({"--ranks", "many"}, "--ranks");
  refuses({"--ranks", "99999999999999999999"}, "--ranks");
  refuses({"--ranks"}, "--ranks");
  refuses({"--stages", "3"}, "--stages");
  refuses({"--tflops", "0"}, "--tflops");
  refuses({"--tflops", "nan"}, "--tflops: got nan, expected a positive number");
  refuses({"--tflops", "inf"}, "--tflops");
  refuses({"--memory-bandwidth", "-1"}, "--memory-bandwidth");
  refuses({"--memory", "80Gigs"}, "launch.memory_limit; got \"80Gigs\"");
  refuses({"--memory", "-1"}, "launch.memory_limit");
  refuses({"--link", "-400"}, "comm.bandwidth_gbps");
  refuses({"--link", "nan"}, "comm.bandwidth_gbps");
  refuses({"--link", "fast"}, "comm.bandwidth_gbps");
  refuses({"--latency-us", "-1"}, "comm.latency_us");
  refuses({"--model", "n_layers=3"}, "model.n_layers");
  refuses({"--model", "n_layer"}, "--set model.n_layer: no value");
  refuses({"--model", "n_layer=0"}, "model.n_layer; got 0");
  refuses({"--model", "n_head=5"}, "model.n_embd does not divide into heads");
  refuses({"--check", "--ranks", "4"}, "--ranks");
  refuses({"--check", "--json", "plan.json"}, "--json");
  refuses({"--nonsense"}, "--nonsense");
  refuses({}, "plan sets the stage itself", {"zero.schedule=[{step=2, stage=1}]"});
  refuses({}, "zero.allgather_bucket_size", {"zero.allgather_bucket_size=1000"});
  const Ended no_folder = run.run("plan", {}, {"--json", "nowhere/plan.json"});
  EXPECT_EQ(no_folder.status, 1);
  EXPECT_NE(no_folder.err.find("cannot write nowhere/plan.json"), std::string::npos);
  const Ended too_large = run.run("plan",
                                  {"model.vocab_size=99", "model.n_embd=1000000",
                                   "model.block_size=1000000", "train.micro_batch_size=1000000"},
                                  {"--tflops", "1"});
  EXPECT_EQ(too_large.status, 2) << too_large.out;
  EXPECT_NE(too_large.err.find("lower train.micro_batch_size"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
}

}  // namespace
}  // namespace zerolab::test
