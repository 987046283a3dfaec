#include "apps/train_gpt/planning/prediction.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>

#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/training/rank_trainer.h"
#include "apps/train_gpt/training/training_run.h"
#include "framework/tensor/backend.h"
#include "tests/train_gpt/planning/small_model.h"

namespace zerolab::app {
namespace {

Prediction predict(const RunConfig& config, const DeviceModel& device = {}) {
  const std::unique_ptr<Backend> backend = make_backend(config);
  return predict(with_ranks(config, config.launch.ranks), config.model.vocab_size, *backend,
                 device);
}

/// The shortest step is the least disturbed.
class ShortestStep final : public RunObserver {
 public:
  void on_step(const StepRecord& record) override { ms = std::min(ms, record.ms.step); }
  double ms = 1e300;
};

struct Case {
  std::string name;
  std::vector<std::string> settings;
};

class PlannedRun : public testing::TestWithParam<Case> {};

/// State, peak and sent bytes are those of the run, to the byte, on every rank.
TEST_P(PlannedRun, HasTheBytesOfTheRun) {
  const SmallModel model;
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int stage : {0, 1, 2}) {
      const RunConfig config =
          model.config(joined(GetParam().settings, {fmt::format("launch.ranks={}", ranks),
                                                    fmt::format("zero.stage={}", stage)}));
      SCOPED_TRACE(fmt::format("{} ranks, stage {}", ranks, stage));
      const Prediction planned = predict(config);
      RunObserver observer;
      const RunSummary run =
          run_training(config, load_training_data(config), observer, /*stop=*/false);
      for (const MemoryLedger::Snapshot& memory : run.memory) {
        EXPECT_EQ(memory.total_peak, planned.memory.total_peak);
        EXPECT_EQ(memory.at_total_peak, planned.memory.at_total_peak);
        EXPECT_EQ(memory.current, planned.memory.current);
      }
      for (const auto& [key, entry] : run.communication.front()) {
        if (key.second == Purpose::kGradient || key.second == Purpose::kParameter) {
          EXPECT_EQ(entry.bytes_sent, run.steps * planned.communication.at(key).bytes_sent);
          EXPECT_EQ(entry.calls, run.steps * planned.communication.at(key).calls);
        }
      }
      int64_t state = 0;
      for (const zero::StateBytes& bytes : run.info.state) {
        state += bytes.bytes;
      }
      EXPECT_EQ(planned.model_states(), state);
      EXPECT_EQ(planned.formula.gradients, planned.bytes_sent(Purpose::kGradient));
      EXPECT_EQ(planned.formula.parameters, planned.bytes_sent(Purpose::kParameter));
      EXPECT_EQ(planned.num_params, run.info.num_params);
      EXPECT_EQ(planned.padding, run.info.padding);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Settings, PlannedRun,
    testing::Values(Case{"Plain", {}}, Case{"Overlap", {"zero.overlap_comm=true"}},
                    Case{"Contiguous", {"zero.layout=contiguous", "zero.reduce_bucket_size=777"}},
                    Case{"FirstZero", {"zero.reduce_scatter=false"}},
                    Case{"ThreeMicroBatches",
                         {"train.gradient_accumulation_steps=3", "train.precision=bf16"}},
                    Case{"Packed",
                         {"zero.contiguous_gradients=false", "model.tie_weights=false",
                          "train.precision=fp16"}}),
    [](const auto& info) { return info.param.name; });

TEST(Prediction, OfAHundredThousandRanksKeepsTheFormulas) {
  const SmallModel model;
  constexpr int64_t kRanks = 100'000;
  for (const std::string layout : {"bucketed", "contiguous"}) {
    for (const int stage : {0, 1, 2}) {
      const RunConfig config = model.config(
          {"zero.layout=" + layout, fmt::format("zero.stage={}", stage), "train.precision=bf16"});
      const std::unique_ptr<Backend> backend = make_backend(config);
      const Prediction planned = predict(with_ranks(config, kRanks), 256, *backend, DeviceModel());
      const int64_t flat = planned.num_params + planned.padding;
      ASSERT_EQ(flat % (kRanks * 128), 0);
      const int64_t share = flat / kRanks;
      EXPECT_EQ(planned.model_states(),
                2 * flat + 2 * (stage == 2 ? share : flat) + 12 * (stage == 0 ? flat : share));
      // N does not divide the contiguous layout's buckets, which an all-reduce cuts into segments:
      // rank 0 has the shorter ones.
      const int64_t legs = stage == 0 ? 2 : 1;
      const bool even = stage > 0 || layout == "bucketed";
      EXPECT_LE(planned.bytes_sent(Purpose::kGradient), legs * 2 * (flat - share));
      EXPECT_GE(planned.bytes_sent(Purpose::kGradient), (even ? legs : 1) * 2 * (flat - share));
      EXPECT_EQ(planned.bytes_sent(Purpose::kParameter), stage == 0 ? 0 : 2 * (flat - share));
    }
  }
}

TEST(Prediction, AddsUpTheTimesOfTheParts) {
  const SmallModel model;
  const auto times = [&](const std::vector<std::string>& settings, double bandwidth_gbps) {
    const RunConfig config =
        model.config(joined({"launch.ranks=4", "zero.reduce_bucket_size=500"}, settings));
    return predict(config, {.speed = {.flops_per_s = 2e8, .bytes_per_s = 1e9},
                            .link = {.bandwidth_gbps = bandwidth_gbps, .latency_us = 1.0},
                            .memory = 0,
                            .text = {}});
  };
  for (const int stage : {0, 1, 2}) {
    SCOPED_TRACE(stage);
    const std::string set = fmt::format("zero.stage={}", stage);
    const Prediction serial = times({set}, 0.1);
    const Prediction overlapped = times({set, "zero.overlap_comm=true"}, 0.1);
    for (const Prediction& planned : {serial, overlapped}) {
      const StepTimes& ms = planned.ms;
      EXPECT_NEAR(ms.forward + ms.backward + ms.optimizer + ms.comm_exposed, ms.step, 1e-3);
    }
    // The link's time: bytes at 0.1 Gbit/s, and a latency for each of the rounds.
    double transfer = 0;
    for (const auto& [key, entry] : serial.communication) {
      const double rounds = (key.first == CollectiveOp::kAllReduce ? 2.0 : 1.0) * 3.0;
      transfer += static_cast<double>(entry.bytes_sent) * 8 / 0.1e9 * 1e3 +
                  static_cast<double>(entry.calls) * rounds * 1e-3;
    }
    EXPECT_NEAR(serial.ms.comm_transfer, transfer, 1e-3);
    EXPECT_NEAR(overlapped.ms.comm_transfer, transfer, 1e-3);
    // Without overlap the device stands still for all of it, and (stage 2) for the copy out of the
    // bucket; with it, for less.
    EXPECT_GE(serial.ms.comm_exposed, transfer - 1e-3);
    EXPECT_LT(serial.ms.comm_hidden(), 1e-3);
    EXPECT_LT(overlapped.ms.comm_exposed, 0.9 * serial.ms.comm_exposed);
    EXPECT_GT(overlapped.ms.comm_hidden(), 0.0);
    EXPECT_LT(overlapped.ms.step, serial.ms.step);
    EXPECT_NEAR(overlapped.ms.forward, serial.ms.forward, 1e-3);
    // No step is shorter than what it computes, nor than what it sends.
    EXPECT_GE(overlapped.ms.step, transfer - 1e-3);
  }
}

TEST(Prediction, CountsTheOperationsOfTheProducts) {
  const SmallModel model;
  const RunConfig config = model.config({});
  constexpr double kFlops = 1e6;
  const Prediction planned = predict(
      config,
      {.speed = {.flops_per_s = kFlops, .bytes_per_s = 0}, .link = {}, .memory = 0, .text = {}});
  // Of B T tokens: 2 x 12 C^2 a layer and 2 C V after them; attention 2 T C, causality halved.
  const double layer = 2.0 * 12 * 12 * 12 + 2.0 * 8 * 12;
  const double tokens = 2.0 * 8;
  EXPECT_NEAR(planned.ms.forward, tokens * (2 * layer + 2.0 * 12 * 256) / kFlops * 1e3, 1e-3);
  // Twice the products; attention has five in its backward for two in its forward.
  EXPECT_NEAR(
      planned.ms.backward,
      tokens * (2 * (2 * 2.0 * 12 * 12 * 12 + 2.5 * 2.0 * 8 * 12) + 4.0 * 12 * 256) / kFlops * 1e3,
      1e-3);
}

/// On a link that outweighs all else, steps take the planned times, as ratios between the stages:
/// with three micro-batches ZeRO-2 sends twice what DDP does.
TEST(Prediction, OfStepTimesHoldsOnASlowLink) {
  const SmallModel model;
  double planned[3] = {};
  double measured[3] = {};
  for (const int stage : {0, 1, 2}) {
    const RunConfig config =
        model.config({"launch.ranks=2", fmt::format("zero.stage={}", stage),
                      "train.gradient_accumulation_steps=3", "comm.bandwidth_gbps=0.0015",
                      "comm.latency_us=100", "run.steps=4"});
    planned[stage] = predict(config, {.speed = {},
                                      .link = {.bandwidth_gbps = config.comm.bandwidth_gbps,
                                               .latency_us = config.comm.latency_us},
                                      .memory = 0,
                                      .text = {}})
                         .ms.step;
    ShortestStep observer;
    run_training(config, load_training_data(config), observer, /*stop=*/false);
    measured[stage] = observer.ms;
    EXPECT_GE(measured[stage], 0.999 * planned[stage]) << stage;  // the link is waited for
  }
  EXPECT_NEAR(planned[2] / planned[0], 2.0, 0.02);
  for (const int stage : {1, 2}) {
    EXPECT_NEAR(measured[stage] / measured[0], planned[stage] / planned[0],
                0.15 * planned[stage] / planned[0])
        << stage;
  }
}

}  // namespace
}  // namespace zerolab::app
