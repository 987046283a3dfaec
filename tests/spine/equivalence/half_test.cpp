#include <gtest/gtest.h>

#include <fmt/core.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/spine/equivalence/exact_model.h"
#include "tests/spine/equivalence/harness.h"

namespace zerolab::test {
namespace {

struct HalfCase {
  DType dtype;  ///< of the parameters
  int world_size;
  int micro_batches;
  std::optional<DType> communication;
  bool fast = false;

  std::unique_ptr<Backend> backend() const { return fast ? fast_backend() : make_plain_backend(); }
};

std::string name_of_half_case(const testing::TestParamInfo<HalfCase>& info) {
  return fmt::format("{}_N{}_k{}_{}_{}", name_of(info.param.dtype), info.param.world_size,
                     info.param.micro_batches,
                     info.param.communication ? name_of(*info.param.communication) : "auto",
                     info.param.fast ? "fast" : "plain");
}

RunSetup setup_of(const HalfCase& c) {
  RunSetup setup;
  setup.world_size = c.world_size;
  setup.engine.gradient_accumulation_steps = c.micro_batches;
  setup.engine.reduce_each_micro_batch = c.micro_batches > 1;
  setup.engine.gradient_clipping = 0.1;
  setup.engine.communication_dtype = c.communication;
  setup.engine.reduce_bucket_size = 333;
  if (c.dtype == DType::kFloat16) {
    setup.engine.loss_scale = optim::dynamic_loss_scale();
  }
  return setup;
}

class MixedPrecision : public testing::TestWithParam<HalfCase> {};

/// Equal bits under every stage hold in every precision: each sum over ranks is made in fp32 and
/// rounded once.
TEST_P(MixedPrecision, EveryStageHasTheBitsOfDdp) {
  const std::unique_ptr<Backend> backend = GetParam().backend();
  const ModelFactory model = tiny_gpt(true, GetParam().dtype);
  const RunSetup ddp = setup_of(GetParam());
  const Outcome expected = run(*backend, model, ddp);
  ASSERT_NE(expected.losses[0], expected.losses[2]);
  for (const int stage : {0, 1, 2}) {
    for (const bool reduce_scatter : {true, false}) {
      for (const zero::LayoutKind layout :
           {zero::LayoutKind::kBucketed, zero::LayoutKind::kContiguous}) {
        for (const bool contiguous_gradients : {true, false}) {
          RunSetup setup = ddp;
          setup.engine.stage = stage;
          setup.engine.reduce_scatter = reduce_scatter;
          setup.engine.layout = layout;
          setup.engine.contiguous_gradients = contiguous_gradients;
          setup.engine.overlap_comm = reduce_scatter == contiguous_gradients;
          setup.debug.poison = stage == 2;
          EXPECT_EQ(difference(run(*backend, model, setup), expected), "") << setup.to_string();
        }
      }
    }
  }
}

/// The stage may change while master weights are in partitions.
TEST_P(MixedPrecision, StageSwitchesKeepTheBits) {
  const std::unique_ptr<Backend> backend = GetParam().backend();
  const ModelFactory model = tiny_gpt(false, GetParam().dtype);
  RunSetup setup = setup_of(GetParam());
  setup.steps = 5;
  const Outcome expected = run(*backend, model, setup);
  setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
    engine.set_stage(std::vector<int>{1, 2, 0, 2, 1, 0}[step]);
  };
  EXPECT_EQ(difference(run(*backend, model, setup), expected), "");
}

TEST(MixedPrecision, EveryOptimizersMasterWeightsAndStateFollowStageSwitches) {
  const std::unique_ptr<Backend> backend = fast_backend();
  for (const std::string& name : optim::optimizer_names()) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      SCOPED_TRACE(testing::Message() << name << " " << name_of(dtype));
      RunSetup setup =
          setup_of({.dtype = dtype, .world_size = 3, .micro_batches = 1, .communication = {}});
      setup.steps = 5;
      setup.optimizer = {.name = name, .momentum = 0.9, .weight_decay = 0.1};
      const Outcome expected = run(*backend, tiny_gpt(true, dtype), setup);
      ASSERT_NE(expected.losses[0], expected.losses[4]);
      setup.inspect = [](RankContext&, Communicator&, zero::Engine& engine, int step) {
        engine.set_stage(std::vector<int>{1, 2, 0, 2, 1, 0}[step]);
      };
      EXPECT_EQ(difference(run(*backend, tiny_gpt(true, dtype), setup), expected), "");
    }
  }
}

TEST_P(MixedPrecision, LossesFollowFp32) {
  const std::unique_ptr<Backend> backend = GetParam().backend();
  HalfCase wide = GetParam();
  wide.dtype = DType::kFloat32;
  wide.communication = {};
  const Outcome expected = run(*backend, tiny_gpt(true), setup_of(wide));
  RunSetup setup = setup_of(GetParam());
  setup.engine.stage = 2;
  const Outcome outcome = run(*backend, tiny_gpt(true, GetParam().dtype), setup);
  EXPECT_NE(outcome.norms, expected.norms);
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(outcome.losses[i], expected.losses[i], 0.01 * expected.losses[i]);
    EXPECT_NEAR(outcome.norms[i], expected.norms[i], 0.02 * expected.norms[i]);  // unscaled
  }
}

constexpr std::optional<DType> kAuto = std::nullopt;
INSTANTIATE_TEST_SUITE_P(Matrix, MixedPrecision,
                         testing::Values(HalfCase{DType::kBFloat16, 1, 1, kAuto},
                                         HalfCase{DType::kBFloat16, 3, 1, kAuto},
                                         HalfCase{DType::kBFloat16, 4, 3, kAuto},
                                         HalfCase{DType::kBFloat16, 2, 1, DType::kFloat32},
                                         HalfCase{DType::kBFloat16, 3, 3, DType::kFloat32},
                                         HalfCase{DType::kFloat16, 3, 1, kAuto},
                                         HalfCase{DType::kFloat16, 4, 3, kAuto},
                                         HalfCase{DType::kFloat16, 2, 1, DType::kBFloat16},
                                         HalfCase{DType::kFloat32, 3, 1, DType::kBFloat16},
                                         HalfCase{DType::kFloat32, 2, 3, DType::kFloat16},
                                         HalfCase{DType::kBFloat16, 3, 1, kAuto, true},
                                         HalfCase{DType::kBFloat16, 4, 3, DType::kFloat32, true},
                                         HalfCase{DType::kFloat16, 4, 1, kAuto, true},
                                         HalfCase{DType::kFloat16, 2, 3, kAuto, true},
                                         HalfCase{DType::kFloat32, 3, 3, DType::kBFloat16, true}),
                         name_of_half_case);

/// A master weight keeps what a 16-bit parameter would lose: 2^-10 a step added to 1 moves nothing
/// in bf16, whose next number is 1 + 2^-7, but the master weights add up.
TEST(MasterWeights, SmallUpdatesAddUp) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const int stage : {0, 1, 2}) {
    RunSetup setup;
    setup.world_size = 2;
    setup.engine.stage = stage;
    setup.engine.alignment = 1;
    setup.optimizer = {.name = "sgd"};
    const ModelFactory model = [](RankContext& context) {
      TestModel built = tiny_gpt(true, DType::kBFloat16)(context);
      for (Parameter* parameter : built.module->parameters()) {
        context.backend().fill(context.compute(), parameter->value(), 1.0);
      }
      return built;
    };
    on_engines(*backend, model, setup, [&](EngineRank& rank) {
      const Tensor& master = rank.engine.optimizer().master_weights();
      ASSERT_EQ(master.dtype(), DType::kFloat32);
      ASSERT_EQ(master.numel(), stage == 0 ? rank.engine.layout().flat_numel()
                                           : rank.engine.layout().partition_numel());
      // What the engine's parameters say, before a step and after, is the master weight rounded.
      for (int step = 0; step < 3; ++step) {
        rank.accumulate(setup, step);
        rank.engine.step({.learning_rate = 0.01});
        rank.engine.wait_for_parameters();
        const std::vector<float> masters = master.to_host<float>();
        const std::vector<BFloat16> flat = rank.engine.flat_parameters().to_host<BFloat16>();
        int64_t finer = 0;
        for (const zero::Segment& segment : rank.engine.optimizer().updated_segments()) {
          for (int64_t i = 0; i < segment.numel; ++i) {
            const float exact =
                masters[(stage == 0 ? segment.flat_offset : segment.partition_offset) + i];
            ASSERT_EQ(flat[segment.flat_offset + i].bits, BFloat16(exact).bits);
            finer += exact != static_cast<float>(BFloat16(exact)) ? 1 : 0;
          }
        }
        EXPECT_GT(finer, 0);
      }
    });
  }
}

/// fp16 with a scale that overflows at first: the same steps are skipped under every stage, the
/// scale falls until gradients fit, and then training goes on.
TEST(LossScale, FallsUntilGradientsFitInEveryStage) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  std::vector<std::pair<double, bool>> expected;  // scale, skipped
  for (const int stage : {0, 1, 2}) {
    RunSetup setup;
    setup.world_size = 3;
    setup.engine.stage = stage;
    setup.engine.loss_scale = {.dynamic = true, .initial = 0x1p24, .window = 4, .hysteresis = 2};
    std::vector<std::pair<double, bool>> history;
    on_engines(*backend, tiny_gpt(true, DType::kFloat16), setup, [&](EngineRank& rank) {
      for (int step = 0; step < 20; ++step) {
        rank.accumulate(setup, step);
        const zero::StepResult result = rank.engine.step({.learning_rate = 0.01});
        if (rank.communicator.rank() == 0) {
          history.emplace_back(result.loss_scale, result.skipped.has_value());
        }
      }
    });
    if (stage == 0) {
      expected = history;
      ASSERT_EQ(history[0], (std::pair{0x1p24, true}));
      ASSERT_EQ(history[1], (std::pair{0x1p24, true}));  // hysteresis
      ASSERT_EQ(history[2].first, 0x1p23);
      ASSERT_FALSE(history[19].second);
    }
    EXPECT_EQ(history, expected) << "stage " << stage;
  }
}

/// docs/faults.md 24: at the smallest scale the run ends with a diagnosis.
TEST(LossScale, Row24_EndsAtTheMinimumScale) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({30})};
  model.coefficient = [](int64_t, int, int64_t) { return 3e38; };
  RunSetup setup = exact_setup(2);
  setup.engine.loss_scale = {.dynamic = true, .initial = 8.0, .hysteresis = 1, .minimum = 4.0};
  setup.engine.max_skipped_steps = 1000;
  setup.steps = 20;
  try {
    run(*backend, model.factory(), setup);
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("overflow at the smallest loss scale, 4"), std::string::npos) << text;
    EXPECT_NE(text.find("inf at p0[0], owned by rank 0"), std::string::npos) << text;
  }
}

/// The scale leaves no trace in what is learned where every sum is exact.
TEST(LossScale, ScalesAndUnscalesExactly) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (const int stage : {0, 1, 2}) {
    RunSetup setup = exact_setup(4, 2);
    setup.engine.stage = stage;
    const ExactModel model = {.shapes = flat_shapes({100, 31})};
    const Outcome unscaled = run(*backend, model.factory(), setup);
    setup.engine.loss_scale = {.initial = 1024.0};
    EXPECT_EQ(difference(run(*backend, model.factory(), setup), unscaled), "");
  }
}

}  // namespace
}  // namespace zerolab::test
