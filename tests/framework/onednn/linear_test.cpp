#include <gtest/gtest.h>

#include <vector>

#include "framework/kernels/linear_call.h"
#include "framework/kernels/weight_layout.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, LinearAgreesWithPlain) {
  struct Sizes {
    int64_t rows, in, out;
  };
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 17, 5}, Sizes{65, 127, 33}, Sizes{257, 3, 129},
                         Sizes{17, 257, 1}, Sizes{64, 128, 256}}) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.rows << " " << s.in << " " << s.out << " " << flag);
        compare(
            [&](Rank& rank) {
              const Tensor x = rank.random(Shape{s.rows, s.in}, 1);
              const Tensor weight = rank.random(
                  layout == WeightLayout::kInOut ? Shape{s.in, s.out} : Shape{s.out, s.in}, 2);
              const Tensor bias = flag ? rank.random(Shape{s.out}, 3) : Tensor();
              const Tensor dy = rank.random(Shape{s.rows, s.out}, 4);
              const Tensor out = Tensor::empty_like(dy);
              const Tensor dx = rank.random(x.shape(), 5);
              const Tensor dweight = rank.random(weight.shape(), 6);
              const Tensor dbias = rank.random(Shape{s.out}, 7);
              rank.backend->linear_forward(rank.stream(), x, weight, layout, bias, out);
              rank.backend->linear_backward_input(rank.stream(), dy, weight, layout, dx, flag);
              rank.backend->linear_backward_weight(rank.stream(), x, dy, layout, dweight, flag);
              rank.backend->sum_rows(rank.stream(), dy, dbias, flag);
              return Outputs{out.to_host<float>(), dx.to_host<float>(), dweight.to_host<float>(),
                             dbias.to_host<float>()};
            },
            1e-5, false);
      }
    }
  }
}

TEST_F(Onednn, LinearTakesItsScratchpadFromTheLedger) {
  Rank rank(make_onednn_backend(), 2);
  const Tensor x = rank.random(Shape{256, 768}, 1);
  const Tensor weight = rank.random(Shape{512, 768}, 2);
  const Tensor out = Tensor::empty(rank.context, Shape{256, 512}, DType::kFloat32);
  rank.backend->linear_forward(rank.stream(), x, weight, WeightLayout::kOutIn, Tensor(), out);
  const LinearCall call = {LinearCall::Pass::kForward,
                           256,
                           768,
                           512,
                           WeightLayout::kOutIn,
                           false,
                           false,
                           DType::kFloat32,
                           DType::kFloat32};
  EXPECT_GT(rank.backend->linear_workspace(call), 0);
  EXPECT_EQ(rank.context.ledger().snapshot().peak_of(Category::kWorkspace),
            rank.backend->linear_workspace(call));
  EXPECT_EQ(rank.context.ledger().snapshot().current_of(Category::kWorkspace), 0);
}

TEST_P(OnednnHalf, Linear) {
  struct Sizes {
    int64_t rows, in, out;
  };
  for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{3, 17, 5}, Sizes{65, 127, 33}, Sizes{257, 3, 129},
                         Sizes{64, 128, 256}, Sizes{1000, 24, 40}}) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.rows << " " << s.in << " " << s.out << " " << flag);
        compare(
            [&](TypedRank& run) {
              const Tensor x = run.random(Shape{s.rows, s.in}, 1);
              const Tensor weight = run.random(
                  layout == WeightLayout::kInOut ? Shape{s.in, s.out} : Shape{s.out, s.in}, 2);
              const Tensor bias = flag ? run.random(Shape{s.out}, 3) : Tensor();
              const Tensor dy = run.random(Shape{s.rows, s.out}, 4);
              const Tensor out = Tensor::empty_like(dy);
              const Tensor dx = run.random(x.shape(), 5);
              const Tensor dweight = run.random(weight.shape(), 6);
              const Tensor wide_dweight = run.random(weight.shape(), 7, kFloat32);
              Backend& backend = run.backend();
              backend.linear_forward(run.stream(), x, weight, layout, bias, out);
              backend.linear_backward_input(run.stream(), dy, weight, layout, dx, flag);
              backend.linear_backward_weight(run.stream(), x, dy, layout, dweight, flag);
              backend.linear_backward_weight(run.stream(), x, dy, layout, wide_dweight, flag);
              return std::vector<Tensor>{out, dx, dweight, wide_dweight};
            },
            1e-5F, false);
      }
    }
  }
}

TEST_P(OnednnHalf, ProductsThatAreAddedAreRoundedOnce) {
  // Just above a tie. Were the product rounded before it is added, the tie would go down.
  const bool bf16 = half() == DType::kBFloat16;
  const float start = bf16 ? 256.0F : 2048.0F;
  const float above_one = bf16 ? 0x1.01p0F : 0x1.002p0F;  // halfway to the next after 1
  TypedRank run(half(), half(), 1);
  for (const int64_t size : {2L, 64L}) {
    const Tensor x = Tensor::zeros(run.rank.context, Shape{size, size}, half());
    const Tensor dy = Tensor::zeros(run.rank.context, Shape{size, size}, half());
    // 1 * 1 + 1 * (above_one - 1)
    std::vector<float> ones(size * size, 0.0F);
    ones[0] = 1.0F;
    ones[size] = 1.0F;
    std::vector<float> factors(size * size, 0.0F);
    factors[0] = 1.0F;
    factors[size] = above_one - 1.0F;
    const Tensor dweight = Tensor::empty(run.rank.context, Shape{size, size}, half());
    run.backend().fill(run.stream(), dweight, start);
    run.backend().linear_backward_weight(run.stream(),
                                         tensor_of(run.rank, Shape{size, size}, half(), ones),
                                         tensor_of(run.rank, Shape{size, size}, half(), factors),
                                         WeightLayout::kInOut, dweight, true);
    EXPECT_EQ(values_of(dweight)[0], start + 2.0F);
    EXPECT_EQ(values_of(dweight)[1], start);
  }
}

TEST_P(OnednnHalf, LinearTakesItsWorkspaceFromTheLedger) {
  for (const DType gradient : {half(), kFloat32}) {
    for (const bool accumulate : {false, true}) {
      TypedRank run(half(), half(), 2);
      const Tensor x = run.random(Shape{250, 77}, 1);
      const Tensor dy = run.random(Shape{250, 131}, 2);
      const Tensor dweight = run.random(Shape{77, 131}, 3, gradient);
      run.backend().linear_backward_weight(run.stream(), x, dy, WeightLayout::kInOut, dweight,
                                           accumulate);
      const LinearCall call = {.pass = LinearCall::Pass::kBackwardWeight,
                               .rows = 250,
                               .in = 77,
                               .out = 131,
                               .layout = WeightLayout::kInOut,
                               .bias = false,
                               .accumulate = accumulate,
                               .dtype = half(),
                               .out_dtype = gradient};
      const auto ledger = run.rank.context.ledger().snapshot();
      EXPECT_EQ(ledger.peak_of(Category::kWorkspace), run.backend().linear_workspace(call));
      EXPECT_EQ(ledger.current_of(Category::kWorkspace), 0);
      if (half() == DType::kFloat16) {  // for which oneDNN has no product: its factors are widened
        EXPECT_GE(run.backend().linear_workspace(call), (250 * 77 + 250 * 131) * 4);
      }
    }
  }
}

}  // namespace
}  // namespace zerolab::test::onednn
