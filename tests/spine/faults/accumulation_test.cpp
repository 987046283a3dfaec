#include <gtest/gtest.h>

#include <cmath>

#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

/// `stages_of`, each reducing at the step and each micro-batch.
std::vector<RunSetup> accumulations_of(RunSetup base) {
  std::vector<RunSetup> setups = stages_of(base);
  base.engine.reduce_each_micro_batch = true;
  for (const RunSetup& setup : stages_of(base)) {
    setups.push_back(setup);
  }
  return setups;
}

TEST(Faults, Row16_EachMicroBatchOfEachRankHasTheSameWeight) {
  constexpr int kWorldSize = 4;
  constexpr int kMicroBatches = 3;
  const std::unique_ptr<Backend> backend = make_plain_backend();
  // Thrice 10^i · (r+1), so that fp32 divides by the three micro-batches exactly.
  ExactModel model = {.shapes = flat_shapes({5, 130})};
  model.coefficient = [](int64_t sample, int, int64_t) {
    const int64_t micro_batch = sample / kWorldSize % kMicroBatches;
    return 3.0 * std::pow(10.0, static_cast<double>(micro_batch)) *
           static_cast<double>(sample % kWorldSize + 1);
  };
  RunSetup base = exact_setup(kWorldSize, kMicroBatches);
  base.steps = 1;
  base.learning_rate = 1.0;
  for (const RunSetup& setup : accumulations_of(base)) {
    for (const float weight : run(*backend, model.factory(), setup).weights) {
      // 3 · (1 + 10 + 100) · (1 + 2 + 3 + 4) / (3 · 4)
      EXPECT_EQ(weight, 1.0F - 277.5F) << setup.to_string();
    }
  }
}

TEST(Faults, Row17_TheNormDoesNotGrowWithSteps) {
  constexpr double kNumParams = 135;
  const std::unique_ptr<Backend> backend = make_plain_backend();
  for (int k = 1; k <= 8; ++k) {
    ExactModel model = {.shapes = flat_shapes({5, 130})};
    // A constant gradient of 1 that is added k times, undivided: the loss is k times as large.
    model.coefficient = [k](int64_t, int, int64_t) { return static_cast<double>(k); };
    RunSetup base = exact_setup(4, k);
    base.steps = 50;
    base.learning_rate = 0.0;
    for (const RunSetup& setup : stages_of(base)) {
      const Outcome outcome = run(*backend, model.factory(), setup);
      ASSERT_EQ(outcome.norms.size(), 50U);
      for (const double norm : outcome.norms) {
        ASSERT_EQ(norm, outcome.norms[0]) << setup.to_string();
      }
      EXPECT_NEAR(outcome.norms[0], k * std::sqrt(kNumParams), 1e-5 * k) << setup.to_string();
    }
  }
}

/// Training without the engine: each parameter has its own gradient, and its own state.
std::vector<float> plain_training(Backend& backend, const ModelFactory& factory,
                                  const RunSetup& setup, bool each_micro_batch) {
  RankContext context({.threads = 1}, backend);
  const TestModel model = factory(context);
  const auto optimizer = optim::make_optimizer(setup.optimizer);
  const std::vector<Parameter*>& parameters = model.module->parameters();
  std::vector<std::vector<Tensor>> states(parameters.size());
  for (size_t p = 0; p < parameters.size(); ++p) {
    for (size_t i = 0; i < optimizer->state_names().size(); ++i) {
      states[p].push_back(Tensor::zeros(context, parameters[p]->shape(), DType::kFloat32));
    }
  }
  const int k = setup.engine.gradient_accumulation_steps;
  for (int step = 0; step < setup.steps; ++step) {
    std::vector<Tensor> sums(parameters.size());
    for (int m = 0; m < k; ++m) {
      const Tensor loss =
          model.loss(context, (step * k + m) * setup.micro_batch, setup.micro_batch);
      const Tensor seed = Tensor::empty_like(loss);
      backend.fill(context.compute(), seed, 1.0 / k);
      autograd::backward(loss, seed);
      for (size_t p = 0; p < parameters.size(); ++p) {
        const Tensor gradient = parameters[p]->gradient();
        if (!each_micro_batch || m == 0) {
          sums[p] = gradient;
        } else {
          backend.accumulate(context.compute(), gradient, sums[p]);
        }
        if (each_micro_batch || m == k - 1) {
          parameters[p]->zero_gradient();
        }
      }
    }
    for (size_t p = 0; p < parameters.size(); ++p) {
      optimizer->update(
          backend, context.compute(),
          {.learning_rate = setup.learning_rate,
           .step = step + 1,
           .weight_decay_factor = optim::decay_matrices(*parameters[p]).weight_decay_factor},
          sums[p], parameters[p]->value(), states[p]);
    }
  }
  return weights_of(parameters);
}

TEST(Faults, Row18_OneRankHasTheBitsOfPlainTraining) {
  const std::unique_ptr<Backend> backend = fast_backend();
  for (int k = 1; k <= 6; ++k) {
    RunSetup base;
    base.engine.gradient_accumulation_steps = k;
    base.engine.reduce_bucket_size = 333;
    const std::vector<float> at_the_step = plain_training(*backend, tiny_gpt(true), base, false);
    const std::vector<float> each = plain_training(*backend, tiny_gpt(true), base, true);
    for (const RunSetup& setup : accumulations_of(base)) {
      EXPECT_EQ(run(*backend, tiny_gpt(true), setup).weights,
                zero::StagePlan(setup.engine).reduces_each_micro_batch ? each : at_the_step)
          << setup.to_string();
    }
  }
}

/// In bf16, 2^-9 added to 1 is 1 again: what k micro-batches add must be added in fp32.
TEST(Faults, Row19_SmallMicroGradientsInBf16AddUpInFp32) {
  constexpr int kWorldSize = 2;
  constexpr int kMicroBatches = 512;  // a power of two, so that the backward's 1/k is exact
  ExactModel model = {.shapes = flat_shapes({5})};
  model.dtype = DType::kBFloat16;
  // The gradients of a step: 1, then 256 times 2^-9, then 0; their sum is 1.5.
  model.coefficient = [](int64_t sample, int, int64_t) {
    const int64_t micro_batch = sample / kWorldSize;
    return micro_batch == 0 ? 512.0 : micro_batch <= 256 ? 1.0 : 0.0;
  };
  RunSetup base = exact_setup(kWorldSize, kMicroBatches);
  base.steps = 1;
  base.learning_rate = 1.0;
  for (const RunSetup& setup : accumulations_of(base)) {
    EXPECT_EQ(run(*make_plain_backend(), model.factory(), setup).weights,
              std::vector<float>(5, 1.0F - 1.5F))
        << setup.to_string();
    RunSetup rounding = setup;
    rounding.engine.gradient_accumulation_dtype = DType::kBFloat16;
    EXPECT_EQ(run(*make_plain_backend(), model.factory(), rounding).weights,
              std::vector<float>(5, 1.0F - 1.0F))
        << setup.to_string();
  }
}

/// Whatever part of the division comes before the sum, the result is the mean; all else is refused
/// (tests/zero/stage_plan_test.cpp).
TEST(Faults, Row20_PrescaleAndPredivideGiveTheExactMean) {
  for (const int world_size : {1, 2, 4}) {
    for (const int micro_batches : {1, 2}) {
      for (const int stage : {0, 1, 2}) {
        for (const double factor : {0.0, 1.0, 2.0, 0.25, static_cast<double>(world_size)}) {
          RunSetup setup = exact_setup(world_size, micro_batches);
          setup.engine.stage = stage;
          setup.engine.reduce_scatter = false;
          setup.engine.reduce_bucket_size = 64;
          setup.engine.prescale_gradients = factor == 0.0;
          setup.engine.gradient_predivide_factor = factor == 0.0 ? 1.0 : factor;
          const ExactModel model = {.shapes = flat_shapes({25, 101})};
          EXPECT_EQ(run(*make_plain_backend(), model.factory(), setup).weights,
                    expected_weights(model, setup))
              << setup.to_string() << ", factor " << factor;
        }
      }
    }
  }
}

}  // namespace
}  // namespace zerolab::test
