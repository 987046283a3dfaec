#include "tests/cuda/both.h"
#include "tests/framework/onednn_rank.h"

namespace zerolab {
namespace {

constexpr int64_t kNumel = 1003;

class CudaOptimizer : public CudaKernels {};

TEST_P(CudaOptimizer, AdamWIsPlainsToTheBitHoweverCut) {
  for (const bool cut : {false, true}) {
    const Twin gradient = both.normal({kNumel}, dtype, "gradient");
    const Twin parameter = both.normal({kNumel}, DType::kFloat32, "parameter");
    const Twin exp_avg = both.of(Shape{kNumel}, std::vector<float>(kNumel));
    const Twin exp_avg_sq = both.of(Shape{kNumel}, std::vector<float>(kNumel));
    for (int64_t step = 1; step <= 3; ++step) {
      const AdamWArguments arguments{
          .learning_rate = 1e-2, .weight_decay = 0.1, .step = step, .gradient_scale = 0.7};
      both.run([&](Backend& backend, Stream& stream, auto on) {
        for_cuts(kNumel, cut, [&](int64_t begin, int64_t numel) {
          backend.adamw(stream, arguments, on(gradient.range(begin, numel)),
                        on(parameter.range(begin, numel)), on(exp_avg.range(begin, numel)),
                        on(exp_avg_sq.range(begin, numel)));
        });
      });
    }
    for (const Twin& out : {parameter, exp_avg, exp_avg_sq}) {
      both.expect_same_bits(out);
    }
  }
}

TEST_P(CudaOptimizer, SgdIsPlainsToTheBitHoweverCut) {
  for (const bool with_momentum : {false, true}) {
    const Twin gradient = both.normal({kNumel}, dtype, "gradient");
    const Twin parameter = both.normal({kNumel}, DType::kFloat32, "parameter");
    const Twin momentum = both.normal({kNumel}, DType::kFloat32, "momentum");
    const SgdArguments arguments{.learning_rate = 0.1,
                                 .momentum = with_momentum ? 0.9 : 0.0,
                                 .weight_decay = 0.01,
                                 .gradient_scale = 0.3};
    both.run([&](Backend& backend, Stream& stream, auto on) {
      for_cuts(kNumel, with_momentum, [&](int64_t begin, int64_t numel) {
        backend.sgd(stream, arguments, on(gradient.range(begin, numel)),
                    on(parameter.range(begin, numel)),
                    with_momentum ? on(momentum.range(begin, numel)) : Tensor());
      });
    });
    both.expect_same_bits(parameter);
    both.expect_same_bits(momentum);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizer, CudaOptimizer, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab
