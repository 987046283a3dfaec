#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace zerolab::test {
namespace {

using nlohmann::json;

struct Keys {
  std::string name;
  std::vector<std::string> settings;
};

std::ostream& operator<<(std::ostream& out, const Keys& keys) { return out << keys.name; }

const Keys kKeys[] = {
    {"Contiguous", {"zero.stage=2", "zero.layout=contiguous"}},
    {"SmallGathers", {"zero.stage=1", "zero.layout=contiguous", "zero.allgather_bucket_size=500"}},
    {"PackedGradients", {"zero.stage=2", "zero.contiguous_gradients=false"}},
    // Two ranks: dividing by a power of two is exact, whenever it is done.
    {"Prescale", {"zero.reduce_scatter=false", "zero.prescale_gradients=true"}},
    {"Predivide", {"zero.reduce_scatter=false", "zero.gradient_predivide_factor=2"}},
    {"HashEveryStep", {"zero.stage=2", "debug.hash_every=1"}},
    {"Jitter", {"zero.stage=2", "zero.overlap_comm=true", "debug.jitter=200"}},
    {"StaticLossScale", {"zero.stage=1", "loss_scale.initial=1024"}},
};

class EngineKeys : public testing::TestWithParam<Keys> {};

TEST_P(EngineKeys, TrainToTheSameLosses) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"run.name=plain"}).status, 0);
  const Ended ended = run.run("train", GetParam().settings);
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto losses = [&](const std::string& name) {
    json losses;
    for (const json& step : of_event(run.log("runs/" + name + "/metrics.jsonl"), "step")) {
      losses.push_back(step.at("loss"));
    }
    return losses;
  };
  EXPECT_EQ(losses("small").size(), 6);
  EXPECT_EQ(losses("small"), losses("plain"));
}

INSTANTIATE_TEST_SUITE_P(Keys, EngineKeys, testing::ValuesIn(kKeys),
                         [](const auto& info) { return info.param.name; });

TEST(EngineKeysLog, HoldsTheLossScaleOfEachStepAndTheSourceOfASkip) {
  const SmallRun run;
  ASSERT_EQ(run.run("train", {"loss_scale.initial=1024"}).status, 0);
  for (const json& step : of_event(run.log(), "step")) {
    EXPECT_EQ(step.at("loss_scale"), 1024.0);
  }
  // Weights of 1e30 make every rank's gradients NaN.
  const Ended ended = run.run("train", {"optimizer.lr=1e30", "optimizer.gradient_clipping=0",
                                        "debug.poison=true", "loss_scale.initial=4"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const std::vector<json> skips = of_event(run.log(), "skip");
  ASSERT_FALSE(skips.empty());
  EXPECT_EQ(skips[0].at("source_ranks"), json({0, 1}));
  EXPECT_EQ(skips[0].at("loss_scale"), 4.0);
  EXPECT_NE(ended.out.find(", from rank 0, 1); loss scale 4"), std::string::npos) << ended.out;
}

}  // namespace
}  // namespace zerolab::test
