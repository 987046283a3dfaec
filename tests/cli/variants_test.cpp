#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

json compared(const SmallRun& run) {
  return json::parse(read_file(run.folder().path("runs/small/compare.json")));
}

constexpr const char* kFolders[] = {"ddp",
                                    "zero-1-all-reduce",
                                    "zero-1-per-owner-reduce",
                                    "zero-1-reduce-scatter",
                                    "zero-2-per-owner-reduce",
                                    "zero-2-reduce-scatter"};

class Variants : public testing::TestWithParam<int> {};

TEST_P(Variants, SendTheVolumesOfThePapers) {
  const int ranks = GetParam();
  const SmallRun run;
  const Ended ended = run.run(
      "compare", {"launch.ranks=" + std::to_string(ranks), "run.eval_every=0"}, {"--variants"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const json json = compared(run);
  EXPECT_TRUE(json.at("modelled_link").is_null());
  EXPECT_EQ(ended.out.find("modelled"), std::string::npos);
  const auto& runs = json.at("runs");
  ASSERT_EQ(runs.size(), std::size(kFolders));
  const char* titles[] = {"DDP", "ZeRO-1", "ZeRO-1", "ZeRO-1", "ZeRO-2", "ZeRO-2"};
  const char* reductions[] = {"all-reduce",     "all-reduce",       "per-owner reduce",
                              "reduce-scatter", "per-owner reduce", "reduce-scatter"};
  const double volumes[] = {1.0, 1.5, 1.0, 1.0, 1.0, 1.0};
  const double formula = runs[0].at("layout").at("bytes_sent_per_step").at("formula");
  for (size_t i = 0; i < runs.size(); ++i) {
    SCOPED_TRACE(kFolders[i]);
    const nlohmann::json& one = runs[i];
    EXPECT_EQ(one.at("title"), titles[i]);
    EXPECT_EQ(one.at("reduction"), reductions[i]);
    EXPECT_EQ(one.at("same_bits"), true);
    const nlohmann::json& sent = one.at("layout").at("bytes_sent_per_step");
    EXPECT_DOUBLE_EQ(sent.at("formula"), volumes[i] * formula);
    const nlohmann::json& mean = one.at("comm_per_step");
    EXPECT_EQ(mean.at("gradient").at("bytes_sent"), sent.at("gradients"));
    EXPECT_EQ(mean.at("parameter").at("bytes_sent"), sent.at("parameters"));
    EXPECT_EQ(one.at("bytes_sent_per_step"),
              sent.at("gradients").get<int64_t>() + sent.at("parameters").get<int64_t>());
    EXPECT_GT(mean.at("gradient").at("transfer_ms"), 0.0);
    EXPECT_TRUE(std::filesystem::exists(
        run.folder().path(std::string("runs/small/") + kFolders[i] + "/metrics.jsonl")));
    for (const auto& [category, bytes] : one.at("memory")[0].items()) {
      if (category != "total") {
        EXPECT_EQ(bytes.at("at_total_peak"), one.at("predicted_memory").at(category)) << category;
      }
    }
  }
  // The first ZeRO-1 sends DDP's all-reduce, and half as much again to gather the parameters.
  EXPECT_EQ(runs[1].at("comm_per_step").at("parameter").at("bytes_sent"),
            0.5 * runs[0].at("comm_per_step").at("gradient").at("bytes_sent").get<double>());
  EXPECT_NE(ended.out.find("Why reducing to each owner takes longer"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Variants, testing::Values(2, 3, 4));

TEST(VariantsOnALink, TakeTheModelledTimes) {
  const SmallRun run;
  const Ended ended = run.run("compare",
                              {"launch.ranks=4", "run.eval_every=0", "run.steps=4",
                               "comm.bandwidth_gbps=0.02", "comm.latency_us=50"},
                              {"--variants"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_NE(ended.out.find("modelled link: 0.02 Gbit/s, latency 50 us; times of communication are "
                           "modelled\n"),
            std::string::npos);
  EXPECT_NE(ended.out.find("Time of communication a step, ms (modelled; "), std::string::npos);
  const json link = {{"bandwidth_gbps", 0.02}, {"latency_us", 50.0}};
  EXPECT_EQ(compared(run).at("modelled_link"), link);
  EXPECT_EQ(run.log("runs/small/ddp/metrics.jsonl").front().at("modelled_link"), link);
  for (const json& one : compared(run).at("runs")) {
    // No verb is faster than its bytes on the link; a `reduce` lasts as long as its whole chain.
    const bool chain = one.at("reduction") == "per-owner reduce";
    const json& gradient = one.at("comm_per_step").at("gradient");
    const double bytes = gradient.at("bytes_sent").get<double>() * (chain ? 4.0 / 3.0 : 1.0);
    EXPECT_GE(gradient.at("transfer_ms"), bytes * 8 / 0.02e9 * 1e3) << one.at("reduction");
    EXPECT_EQ(one.at("same_bits"), true);
  }
}

TEST(VariantsOfACommandLine, RefuseStagesAndIllegalCombinations) {
  const SmallRun run;
  const Ended both = run.run("compare", {}, {"--variants", "--stages", "0,1"});
  EXPECT_EQ(both.status, 2);
  EXPECT_NE(both.err.find("--stages"), std::string::npos) << both.err;
  const Ended illegal = run.run(
      "compare", {"zero.layout=contiguous", "zero.allgather_bucket_size=1000"}, {"--variants"});
  EXPECT_EQ(illegal.status, 2);
  EXPECT_NE(illegal.err.find("zero.allgather_bucket_size"), std::string::npos) << illegal.err;
  EXPECT_FALSE(std::filesystem::exists(run.folder().path("runs")));
}

}  // namespace
}  // namespace zerolab::test
