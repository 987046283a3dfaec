#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/core/error.h"
#include "framework/onednn/backend.h"
#include "framework/plain/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::optim {
namespace {

using Values = std::vector<float>;

const Values kStart = {1.0F, -0.5F, 0.25F, 2.0F};
/// One a step: with zeros, a sign that turns, and one gradient smaller than any epsilon.
const std::vector<Values> kGradients = {{0.5F, -1.0F, 0.125F, 0.0F},
                                        {0.25F, 0.75F, -2.0F, 1e-9F},
                                        {-0.125F, 0.5F, 0.0625F, -3.0F},
                                        {1.5F, -0.25F, 0.5F, 0.75F},
                                        {0.0F, 2.0F, -1.0F, 0.25F}};
constexpr double kLearningRate = 0.1;

/// The parameters after all of `kGradients`. Each gradient is handed over divided by `scale`, which
/// the update has to multiply.
Values train(Backend& backend, const OptimizerOptions& options, bool decay, float scale) {
  RankContext context({}, backend);
  const Shape shape{static_cast<int64_t>(kStart.size())};
  const auto optimizer = make_optimizer(options);
  const Tensor parameter = Tensor::from_host(context, shape, std::span<const float>(kStart));
  std::vector<Tensor> states;
  for (size_t i = 0; i < optimizer->state_names().size(); ++i) {
    states.push_back(Tensor::zeros(context, shape, DType::kFloat32));
  }
  int64_t step = 0;
  for (Values values : kGradients) {
    for (float& value : values) {
      value /= scale;
    }
    const Tensor gradient = Tensor::from_host(context, shape, std::span<const float>(values));
    optimizer->update(backend, context.compute(),
                      {.learning_rate = kLearningRate,
                       .step = ++step,
                       .gradient_scale = scale,
                       .weight_decay_factor = decay ? 1.0 : 0.0},
                      gradient, parameter, states);
  }
  return parameter.to_host<float>();
}

/// Expected values: torch.optim.SGD and torch.optim.AdamW in fp64; of Lion, make_lion.py's.
void expect(const OptimizerOptions& options, const std::vector<double>& expected,
            bool decay = true) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_plain_backend());
  if (onednn_is_available()) {
    backends.push_back(make_onednn_backend());
  }
  for (const auto& backend : backends) {
    for (const float scale : {1.0F, 0.25F}) {
      const Values got = train(*backend, options, decay, scale);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(got[i], expected[i], 1e-6) << "element " << i << ", gradient scale " << scale;
      }
    }
  }
}

TEST(Sgd, IsPyTorchs) {
  expect({.name = "sgd"}, {0.787500000, -0.700000000, 0.481250000, 2.200000000});
}

TEST(Sgd, WithWeightDecayIsPyTorchs) {
  expect({.name = "sgd", .weight_decay = 0.2},
         {0.699277589, -0.653832982, 0.447686497, 1.997461594});
}

TEST(Sgd, WithMomentumAndWeightDecayIsPyTorchs) {
  expect({.name = "sgd", .momentum = 0.9, .weight_decay = 0.2},
         {0.230774525, -0.528018310, 0.782009731, 2.122952985});
}

TEST(AdamW, IsPyTorchs) {
  expect({.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8},
         {0.621054297, -0.457481019, 0.344099358, 2.120063778});
}

TEST(AdamW, WithWeightDecayAndALargeEpsilonIsPyTorchs) {
  expect({.beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-3, .weight_decay = 0.3},
         {0.507293377, -0.423730925, 0.308795220, 1.841750474});
}

TEST(AdamW, LeavesSpansThatDoNotDecayAlone) {
  expect({.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.3},
         {0.621054297, -0.457481019, 0.344099358, 2.120063778}, false);
}

TEST(Lion, IsItsPapers) {
  // The last element's first gradient is zero, and so is its first step.
  expect({.name = "lion", .beta1 = 0.9, .beta2 = 0.99},
         {0.700000000, -0.600000000, 0.350000000, 1.800000000});
}

TEST(Lion, WithWeightDecayIsItsPapers) {
  expect({.name = "lion", .beta1 = 0.5, .beta2 = 0.8, .weight_decay = 0.3},
         {0.387847445, -0.529195032, 0.314511525, 1.723290751});
}

TEST(Lion, DoesNotMoveWhereNoGradientEverWas) {
  const auto backend = make_plain_backend();
  RankContext context({}, *backend);
  for (const float zero : {0.0F, -0.0F}) {
    const Tensor gradient = Tensor::from_host(context, {1}, std::span<const float>(&zero, 1));
    const Tensor parameter =
        Tensor::from_host(context, {1}, std::span<const float>(kStart.data(), 1));
    const Tensor state = Tensor::zeros(context, {1}, DType::kFloat32);
    make_optimizer({.name = "lion"})
        ->update(*backend, context.compute(), {.learning_rate = kLearningRate}, gradient, parameter,
                 std::span(&state, 1));
    EXPECT_EQ(parameter.item(), kStart[0]);
  }
}

TEST(Optimizer, KeepsOnlyTheStateThatItNeeds) {
  EXPECT_EQ(make_optimizer({.name = "sgd"})->state_names().size(), 0);
  EXPECT_EQ(make_optimizer({.name = "sgd", .momentum = 0.9})->state_names().size(), 1);
  EXPECT_EQ(make_optimizer({.name = "adamw"})->state_names().size(), 2);
  EXPECT_EQ(make_optimizer({.name = "lion"})->state_names(), std::vector<std::string>{"exp_avg"});
}

TEST(Optimizer, RefusesAnUnknownName) {
  EXPECT_EQ(optimizer_names(), (std::vector<std::string>{"adamw", "sgd", "lion"}));
  EXPECT_THROW(make_optimizer({.name = "adam"}), ConfigError);
}

}  // namespace
}  // namespace zerolab::optim
