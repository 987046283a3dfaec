#include <gtest/gtest.h>

#include "framework/comm/local.h"
#include "framework/core/error.h"
#include "framework/plain/backend.h"
#include "tests/spine/faults/variants.h"

namespace zerolab::test {
namespace {

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// A rank that was started with another configuration is found before the first step.
TEST(Disagreement, ConfigurationsAreComparedAtTheStart) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  const ExactModel model = {.shapes = flat_shapes({30})};
  LocalGroup group(3);
  const std::string error = error_of([&] {
    run_ranks(group, [&](int r) {
      RankContext context({.rank = r, .world_size = 3}, *backend);
      const std::unique_ptr<Communicator> communicator = group.communicator(context);
      const TestModel built = model.factory()(context);
      const auto optimizer = optim::make_optimizer({});
      zero::Engine(context, *communicator, built.module->parameters(), *optimizer,
                   {.gradient_clipping = r == 2 ? 0.5 : 1.0});
    });
  });
  EXPECT_NE(error.find("the configuration on rank 2 differs from rank 0's"), std::string::npos)
      << error;
}

/// One wrong weight on one rank is found at the next comparison, by rank and name; here of a frozen
/// parameter, which nothing would ever put right.
TEST(Disagreement, HashEveryFindsTheRankAndTheParameter) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  ExactModel model = {.shapes = flat_shapes({30, 20, 10})};
  model.frozen = {1};
  for (RunSetup setup : stages_of(exact_setup(3))) {
    setup.debug.hash_every = 2;
    int steps = 0;
    const std::string error = error_of([&] {
      on_engines(*backend, model.factory(), setup, [&](EngineRank& rank) {
        for (int step = 1; step <= 6; ++step) {
          rank.accumulate(setup, step);
          rank.engine.step({.learning_rate = setup.learning_rate});
          if (rank.communicator.rank() == 0) {
            ++steps;
          }
          if (step == 3 && rank.communicator.rank() == 1) {
            const Tensor value = rank.model.module->parameters()[1]->value();
            backend->fill(rank.context.compute(), value.range(7, 1), 1000.0);
          }
        }
      });
    });
    EXPECT_NE(error.find("p1 after step 4 (debug.hash_every = 2) on rank 1 differs"),
              std::string::npos)
        << error << "\n"
        << setup.to_string();
    EXPECT_EQ(steps, 3);
  }
}

TEST(Disagreement, HashEveryChangesNothingWhereRanksAgree) {
  const std::unique_ptr<Backend> backend = make_plain_backend();
  RunSetup base = exact_setup(3);
  base.debug.hash_every = 1;
  expect_exact({.shapes = flat_shapes({30, 20, 10})}, base);
}

}  // namespace
}  // namespace zerolab::test
