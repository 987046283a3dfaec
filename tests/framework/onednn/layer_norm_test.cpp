#include <gtest/gtest.h>

#include <vector>

#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, LayerNormAgreesWithPlain) {
  for (const int64_t cols : kOddSizes) {
    for (const bool flag : {false, true}) {
      SCOPED_TRACE(testing::Message() << cols << " " << flag);
      compare(
          [&](Rank& rank) {
            Backend& backend = *rank.backend;
            const Shape shape = {3, 91, cols};
            const Tensor x = rank.random(shape, 1, 2.0F);
            const Tensor weight = rank.random(Shape{cols}, 2);
            const Tensor bias = flag ? rank.random(Shape{cols}, 3) : Tensor();
            const Tensor dy = rank.random(shape, 4);
            const Tensor out = Tensor::empty_like(x);
            const Tensor mean = rank.random(Shape{3 * 91}, 5);
            const Tensor rstd = rank.random(Shape{3 * 91}, 6);
            const Tensor dx = rank.random(shape, 7);
            const Tensor dweight = rank.random(Shape{cols}, 8);
            const Tensor dbias = flag ? rank.random(Shape{cols}, 9) : Tensor();
            // A column alone has no variance: a larger epsilon keeps its rstd in bounds.
            const double epsilon = cols == 1 ? 1.0 : 1e-5;
            backend.layer_norm_forward(rank.stream(), x, weight, bias, epsilon, out, mean, rstd);
            backend.layer_norm_backward_input(rank.stream(), x, weight, mean, rstd, dy, dx, flag);
            backend.layer_norm_backward_parameters(rank.stream(), x, mean, rstd, dy, dweight, flag,
                                                   dbias, flag);
            Outputs outputs = {out.to_host<float>(), mean.to_host<float>(), rstd.to_host<float>(),
                               dx.to_host<float>(), dweight.to_host<float>()};
            if (flag) {
              outputs.push_back(dbias.to_host<float>());
            }
            return outputs;
          },
          1e-5);
    }
  }
}

TEST_P(OnednnHalf, LayerNorm) {
  for (const int64_t cols : {1L, 17L, 130L, 768L}) {
    for (const bool wide_gradients : {false, true}) {
      SCOPED_TRACE(testing::Message() << cols << " " << wide_gradients);
      compare([&](TypedRank& run) {
        Backend& backend = run.backend();
        const Shape shape = {3, 91, cols};
        const DType gradients = wide_gradients ? kFloat32 : run.type;
        const Tensor x = run.random(shape, 1, 2.0F);
        const Tensor weight = run.random(Shape{cols}, 2);
        const Tensor bias = wide_gradients ? run.random(Shape{cols}, 3) : Tensor();
        const Tensor dy = run.random(shape, 4);
        const Tensor out = Tensor::empty_like(x);
        const Tensor mean = run.random(Shape{3 * 91}, 5, kFloat32);
        const Tensor rstd = run.random(Shape{3 * 91}, 6, kFloat32);
        const Tensor dx = run.random(shape, 7);
        const Tensor dweight = run.random(Shape{cols}, 8, gradients);
        const Tensor dbias = run.random(Shape{cols}, 9, gradients);
        const Tensor sums = run.random(Shape{cols}, 10, gradients);
        backend.layer_norm_forward(run.stream(), x, weight, bias, 1e-2, out, mean, rstd);
        backend.layer_norm_backward_input(run.stream(), x, weight, mean, rstd, dy, dx,
                                          wide_gradients);
        backend.layer_norm_backward_parameters(run.stream(), x, mean, rstd, dy, dweight, true,
                                               dbias, false);
        backend.sum_rows(run.stream(), dy, sums, wide_gradients);
        return std::vector<Tensor>{out, mean, rstd, dx, dweight, dbias, sums};
      });
    }
  }
}

TEST_P(OnednnHalf, LayerNormGradientsMayDifferInTypeOrBeLeftOut) {
  compare([&](TypedRank& run) {
    const Tensor x = run.random(Shape{5, 40}, 1);
    const Tensor statistics = run.random(Shape{5}, 2, kFloat32);
    const Tensor dweight = run.random(Shape{40}, 3);
    const Tensor dbias = run.random(Shape{40}, 4, kFloat32);
    const Tensor only = run.random(Shape{40}, 5);
    run.backend().layer_norm_backward_parameters(run.stream(), x, statistics, statistics, x,
                                                 dweight, false, dbias, true);
    run.backend().layer_norm_backward_parameters(run.stream(), x, statistics, statistics, x,
                                                 Tensor(), false, only, true);
    return std::vector<Tensor>{dweight, dbias, only};
  });
}

}  // namespace
}  // namespace zerolab::test::onednn
