#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "framework/comm/local.h"
#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

/// Losses of an evaluation after every step, and the weights at the end.
struct Watched {
  std::vector<float> evaluations;
  std::vector<float> weights;
  bool operator==(const Watched&) const = default;
};

/// Reads its parameters in the reverse of the order in which they are gathered.
ModelFactory reversed_model() {
  ExactModel model = {.shapes = flat_shapes({30, 100, 7, 64, 150, 9, 40, 300})};
  model.terms = [](int, int64_t) { return std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}; };
  return model.factory();
}

Watched train_and_evaluate(const ModelFactory& model, const RunSetup& setup, bool in_the_middle) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  std::vector<Watched> watched(setup.world_size);
  on_engines(*backend, model, setup, [&](EngineRank& rank) {
    Watched& mine = watched[rank.communicator.rank()];
    const auto evaluate = [&] {
      const NoGradScope no_grad(rank.context);
      // The forward begins while gathers may still be running; nobody has waited for them.
      mine.evaluations.push_back(
          static_cast<float>(rank.model.loss(rank.context, 1'000'000, 2).item()));
    };
    for (int step = 0; step < setup.steps; ++step) {
      rank.accumulate(setup, step);
      if (in_the_middle) {
        const size_t before = mine.evaluations.size();
        evaluate();
        mine.evaluations.resize(before);
      }
      rank.engine.step({.learning_rate = setup.learning_rate});
      evaluate();
    }
    rank.engine.wait_for_parameters();
    mine.weights = weights_of(rank.model.module->parameters());
  });
  for (const Watched& rank : watched) {
    EXPECT_EQ(rank.evaluations, watched[0].evaluations) << setup.to_string();
    EXPECT_EQ(rank.weights, watched[0].weights) << setup.to_string();
  }
  return watched[0];
}

TEST(Faults, Row30_AnEvaluationRightAfterAStepSeesNoPendingGather) {
  RunSetup base;
  base.world_size = 3;
  base.engine.gradient_accumulation_steps = 2;
  base.engine.reduce_each_micro_batch = true;
  base.engine.reduce_bucket_size = 100;
  base.engine.alignment = 16;
  for (const ModelFactory& model : {tiny_gpt(true), reversed_model()}) {
    base.debug.poison = false;
    const Watched expected = train_and_evaluate(model, base, false);
    ASSERT_EQ(expected.evaluations.size(), 3U);
    ASSERT_NE(expected.evaluations[0], expected.evaluations[1]);
    // A gather that has not been waited for has left NaN in what other ranks own.
    base.debug.poison = true;
    for (const bool in_the_middle : {false, true}) {
      for (const StreamMode streams : {StreamMode::kImmediate, StreamMode::kLazy}) {
        for (RunSetup setup : stages_of(base)) {
          setup.streams = streams;
          for (setup.lazy_seed = 1; setup.lazy_seed <= 4; ++setup.lazy_seed) {
            EXPECT_EQ(train_and_evaluate(model, setup, in_the_middle), expected)
                << setup.to_string();
          }
        }
      }
    }
  }
}

/// The test above can fail: with lazy streams gathers really are pending when the forward begins,
/// and what they are to fill is poisoned.
TEST(Faults, Row30_WithoutTheReadyEventsAForwardWouldSeeNan) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup setup;
  setup.world_size = 2;
  setup.streams = StreamMode::kLazy;
  setup.engine.stage = 2;
  setup.engine.overlap_comm = true;
  setup.engine.reduce_bucket_size = 64;
  setup.debug.poison = true;
  std::atomic<int> spoiled = 0;
  for (setup.lazy_seed = 1; setup.lazy_seed <= 8; ++setup.lazy_seed) {
    on_engines(*backend, reversed_model(), setup, [&](EngineRank& rank) {
      rank.accumulate(setup, 0);
      rank.engine.step({.learning_rate = 0.1});
      std::vector<Event> ready;
      for (Parameter* parameter : rank.model.module->parameters()) {
        ready.push_back(parameter->ready());
        parameter->set_ready(Event());
      }
      const NoGradScope no_grad(rank.context);
      spoiled += std::isnan(rank.model.loss(rank.context, 0, 1).item()) ? 1 : 0;
      for (const Event& event : ready) {
        event.synchronize();
      }
      EXPECT_TRUE(std::isfinite(rank.model.loss(rank.context, 0, 1).item()));
    });
  }
  EXPECT_GT(spoiled, 8);  // of 16
}

TEST(Faults, Row30_AParametersOwnGradientMeansNothingToTheEngine) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({30, 100, 7})};
  RunSetup base = exact_setup(3, 2);
  base.engine.reduce_bucket_size = 64;
  for (const RunSetup& setup : stages_of(base)) {
    on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
      for (int step = 0; step < setup.steps; ++step) {
        for (Parameter* parameter : rank.model.module->parameters()) {
          parameter->zero_gradient();
        }
        rank.accumulate(setup, step);
        for (Parameter* parameter : rank.model.module->parameters()) {
          parameter->zero_gradient();  // where a habit from elsewhere would lose the gradients
          EXPECT_FALSE(parameter->gradient().defined());
        }
        rank.engine.step({.learning_rate = setup.learning_rate});
      }
      rank.engine.wait_for_parameters();
      const std::vector<float> weights = weights_of(rank.model.module->parameters());
      EXPECT_EQ(weights, expected_weights(model, setup)) << setup.to_string();
    });
  }
}

/// When the engine goes, parameters keep their values and get gradients of their own again.
TEST(Faults, Row30_AfterTheEngineParametersStandAlone) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({30, 100, 7})};
  const RunSetup setup = exact_setup(1);
  RankContext context({.threads = 1}, *backend);
  LocalGroup group(1);
  run_ranks(group, [&](int) {
    const std::unique_ptr<Communicator> communicator = group.communicator(context);
    const TestModel made = model.factory()(context);
    const auto optimizer = optim::make_optimizer(setup.optimizer);
    {
      zero::Engine engine(context, *communicator, made.module->parameters(), *optimizer,
                          setup.engine);
      engine.begin_micro_batch();
      engine.backward(made.loss(context, 0, 1));
      engine.end_micro_batch();
      engine.step({.learning_rate = setup.learning_rate});
    }
    RunSetup one_step = setup;
    one_step.steps = 1;
    EXPECT_EQ(weights_of(made.module->parameters()), expected_weights(model, one_step));
    const Tensor loss = made.loss(context, 0, 1);
    const Tensor seed = Tensor::empty_like(loss);
    backend->fill(context.compute(), seed, 1.0);
    autograd::backward(loss, seed);
    EXPECT_EQ(made.module->parameters()[0]->gradient().to_host<float>()[3],
              static_cast<float>(model.coefficient(0, 0, 3)));
  });
}

}  // namespace
}  // namespace zerolab::test
