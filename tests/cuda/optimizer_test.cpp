#include "framework/update_rules/update_rule.h"
#include "tests/cuda/both.h"
#include "tests/framework/onednn_rank.h"
#include "tests/framework/update_states.h"

namespace zerolab {
namespace {

constexpr int64_t kNumel = 1003;

class CudaOptimizer : public CudaKernels {};

TEST_P(CudaOptimizer, EveryRuleIsPlainsToTheBitHoweverCut) {
  for_each_rule([&]<typename Rule>() {
    for (const bool cut : {false, true}) {
      SCOPED_TRACE(testing::Message() << Rule::kName << " cut " << cut);
      const Twin gradient = both.normal({kNumel}, dtype, "gradient");
      const Twin parameter = both.normal({kNumel}, DType::kFloat32, "parameter");
      std::vector<Twin> states;
      for (size_t state = 0; state < kNumStates<Rule>; ++state) {
        states.push_back(both.of(Shape{kNumel}, std::vector<float>(kNumel)));
      }
      for (int64_t step = 1; step <= 3; ++step) {
        const Rule rule(
            {.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .step = step});
        both.run([&](Backend& backend, Stream& stream, auto on) {
          for_cuts(kNumel, cut, [&](int64_t begin, int64_t numel) {
            backend.update(stream, {rule}, 0.7, on(gradient.range(begin, numel)),
                           on(parameter.range(begin, numel)),
                           update_states(states.size(), [&](int state) {
                             return on(states[state].range(begin, numel));
                           }));
          });
        });
      }
      both.expect_same_bits(parameter);
      for (const Twin& state : states) {
        both.expect_same_bits(state);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Optimizer, CudaOptimizer, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab
