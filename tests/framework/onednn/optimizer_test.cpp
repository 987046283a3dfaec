#include <gtest/gtest.h>

#include <vector>

#include "framework/update_rules/update_rule.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"
#include "tests/framework/update_states.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, OptimizerStepsArePlainsToTheBitHoweverTheyAreCut) {
  constexpr int64_t kSize = 100003;
  for_each_rule([&]<typename Rule>() {
    SCOPED_TRACE(Rule::kName);
    const Rule rule({.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .step = 3});
    for (const bool cut : {false, true}) {
      compare(
          [&](Rank& rank) {
            const Tensor gradient = rank.random(Shape{kSize}, 1);
            const Tensor parameter = rank.random(Shape{kSize}, 2);
            const std::vector<Tensor> states = update_states(kNumStates<Rule>, [&](int state) {
              return state == 0 ? rank.random(Shape{kSize}, 3)
                                : rank.tensor(Shape{kSize}, std::vector<float>(kSize, 0.5F));
            });
            // Plain is not cut: it is what the cut pieces must equal.
            for_cuts(kSize, cut && rank.backend->name() == "onednn", [&](int64_t begin, int64_t n) {
              rank.backend->update(rank.stream(), {rule}, 0.7, gradient.range(begin, n),
                                   parameter.range(begin, n), ranges_of(states, begin, n));
            });
            Outputs outputs = {parameter.to_host<float>()};
            for (const Tensor& state : states) {
              outputs.push_back(state.to_host<float>());
            }
            return outputs;
          },
          0.0);
    }
  });
}

TEST_P(OnednnHalf, OptimizerSteps) {
  constexpr int64_t kSize = 70001;
  for_each_rule([&]<typename Rule>() {
    SCOPED_TRACE(Rule::kName);
    const Rule rule({.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .step = 3});
    compare([&](TypedRank& run) {
      const Tensor gradient = run.random(Shape{kSize}, 1);
      const Tensor parameter = run.random(Shape{kSize}, 2, kFloat32);
      std::vector<Tensor> outputs = update_states(kNumStates<Rule>, [&](int state) {
        return state == 0 ? run.random(Shape{kSize}, 3, kFloat32)
                          : run.rank.tensor(Shape{kSize}, std::vector<float>(kSize, 0.5F));
      });
      run.backend().update(run.stream(), {rule}, 0.7, gradient, parameter, outputs);
      outputs.push_back(parameter);
      return outputs;
    });
  });
}

}  // namespace
}  // namespace zerolab::test::onednn
