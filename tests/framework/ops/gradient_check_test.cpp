#include "tests/framework/gradient_check.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "framework/ops/attention.h"
#include "framework/ops/cross_entropy.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/embedding.h"
#include "framework/ops/layer_norm.h"
#include "framework/ops/linear.h"
#include "framework/ops/mse.h"
#include "framework/ops/positions.h"
#include "framework/ops/rearrange.h"
#include "framework/ops/softmax.h"
#include "framework/tensor/backend.h"

namespace zerolab {
namespace {

using Inputs = const std::vector<Tensor>&;

class GradientCheck : public testing::Test {
 protected:
  void check(const std::vector<Shape>& shapes, const Op& op) {
    expect_op_gradients(rank_, shapes, op);
    expect_rounded_results(rank_, DType::kBFloat16, shapes, op);
    expect_rounded_results(rank_, DType::kFloat16, shapes, op);
  }
  TestRank rank_;
};

TEST_F(GradientCheck, Add) {
  check({{3, 5}, {3, 5}}, [](Inputs in) { return ops::add(in[0], in[1]); });
}
TEST_F(GradientCheck, AddBroadcast) {
  check({{2, 3, 5}, {3, 5}}, [](Inputs in) { return ops::add(in[0], in[1]); });
  check({{7, 1, 3}, {3}}, [](Inputs in) { return ops::add(in[0], in[1]); });
}
TEST_F(GradientCheck, AddOfItself) {
  check({{3, 5}}, [](Inputs in) { return ops::add(in[0], in[0]); });
}
TEST_F(GradientCheck, Residual) {
  check({{3, 5}}, [](Inputs in) {
    const Tensor x = ops::add(in[0], ops::gelu(in[0]));
    return ops::add(ops::relu(x), x);
  });
}
TEST_F(GradientCheck, Relu) {
  check({{7, 3}}, [](Inputs in) { return ops::relu(in[0]); });
}
TEST_F(GradientCheck, Gelu) {
  check({{7, 3}}, [](Inputs in) { return ops::gelu(in[0]); });
}
TEST_F(GradientCheck, Dropout) {
  check({{3, 2, 5}}, [](Inputs in) { return ops::dropout(in[0], {5, 2, 11, 0.3}); });
}
TEST_F(GradientCheck, Linear) {
  check({{2, 3, 5}, {5, 7}, {7}}, [](Inputs in) { return ops::linear(in[0], in[1], in[2]); });
  check({{3, 5}, {5, 1}}, [](Inputs in) { return ops::linear(in[0], in[1], Tensor()); });
}
TEST_F(GradientCheck, LinearWithTransposedWeight) {
  check({{2, 3, 5}, {7, 5}, {7}},
        [](Inputs in) { return ops::linear(in[0], in[1], in[2], WeightLayout::kOutIn); });
  check({{1, 5}, {3, 5}},
        [](Inputs in) { return ops::linear(in[0], in[1], Tensor(), WeightLayout::kOutIn); });
}
TEST_F(GradientCheck, LinearGelu) {
  check({{2, 3, 5}, {5, 7}, {7}}, [](Inputs in) { return ops::linear_gelu(in[0], in[1], in[2]); });
  check({{1, 5}, {3, 5}},
        [](Inputs in) { return ops::linear_gelu(in[0], in[1], Tensor(), WeightLayout::kOutIn); });
}
TEST_F(GradientCheck, LayerNorm) {
  check({{2, 3, 7}, {7}, {7}},
        [](Inputs in) { return ops::layer_norm(in[0], in[1], in[2], 1e-5); });
  check({{3, 5}, {5}}, [](Inputs in) { return ops::layer_norm(in[0], in[1], Tensor(), 1e-5); });
}
TEST_F(GradientCheck, AddLayerNorm) {
  check({{2, 3, 7}, {2, 3, 7}, {7}, {7}}, [](Inputs in) {
    const auto [sum, normalized] = ops::add_layer_norm(in[0], in[1], in[2], in[3], 1e-5);
    return ops::add(normalized, ops::gelu(sum));
  });
  check({{3, 5}, {3, 5}, {5}}, [](Inputs in) {
    return ops::add_layer_norm(in[0], in[1], in[2], Tensor(), 1e-5).normalized;
  });
}
TEST_F(GradientCheck, Attention) {
  check({{2, 5, 18}}, [](Inputs in) { return ops::causal_attention(in[0], 2); });
  check({{1, 1, 9}}, [](Inputs in) { return ops::causal_attention(in[0], 3); });
}
TEST_F(GradientCheck, FullAttention) {
  check({{2, 5, 18}}, [](Inputs in) { return ops::full_attention(in[0], 2); });
  check({{1, 1, 9}}, [](Inputs in) { return ops::full_attention(in[0], 3); });
}
TEST_F(GradientCheck, Silu) {
  check({{7, 3}}, [](Inputs in) { return ops::silu(in[0]); });
}
TEST_F(GradientCheck, Softmax) {
  check({{2, 3, 5}}, [](Inputs in) { return ops::softmax(in[0]); });
}
TEST_F(GradientCheck, MeanPositions) {
  check({{2, 5, 3}}, [](Inputs in) { return ops::mean_positions(in[0]); });
}
TEST_F(GradientCheck, Slice) {
  check({{7}}, [](Inputs in) { return ops::slice(in[0], 0, 2, 3); });
  check({{2, 4, 5}}, [](Inputs in) { return ops::slice(in[0], 1, 1, 2); });
  check({{2, 3, 2, 5}}, [](Inputs in) { return ops::slice(in[0], -1, 4, 1); });
}
TEST_F(GradientCheck, Concatenate) {
  check({{2, 3, 4}, {2, 1, 4}}, [](Inputs in) { return ops::concatenate(in[0], in[1], 1); });
  check({{3, 2}, {3, 5}}, [](Inputs in) { return ops::concatenate(in[0], in[1], -1); });
  check({{3, 2}}, [](Inputs in) { return ops::concatenate(in[0], in[0], 0); });
}
TEST_F(GradientCheck, Transpose) {
  check({{3, 5}}, [](Inputs in) { return ops::transpose(in[0], 0, 1); });
  check({{2, 3, 4, 5}}, [](Inputs in) { return ops::transpose(in[0], 1, -1); });
}
TEST_F(GradientCheck, Embedding) {
  const Tensor indices = rank_.tensor<int32_t>({2, 3}, {4, 0, 4, 4, 2, 0});
  check({{5, 3}}, [&](Inputs in) { return ops::embedding(indices, in[0]); });
}
TEST_F(GradientCheck, CrossEntropy) {
  const Tensor targets = rank_.tensor<int32_t>({3}, {6, 0, 2});
  check({{3, 7}, {7}},
        [&](Inputs in) { return ops::cross_entropy(ops::add(in[0], in[1]), targets); });
}
TEST_F(GradientCheck, Mse) {
  check({{3, 5}}, [&](Inputs in) {
    return ops::mse(in[0], rank_.coarse({3, 5}, in[0].dtype(), "target"));
  });
}

/// gelu's values with relu's gradient.
Tensor wrong(const Tensor& x) {
  const Tensor out = ops::gelu(x.detached());
  return autograd::record("wrong", out, {x},
                          [out](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            dy.context().backend().relu_backward(dy.context().compute(), out, dy,
                                                                 dx.tensor, dx.accumulate);
                          });
}
void check_wrong_rule() {
  TestRank rank;
  Parameter x("x", rank.normal({1}, DType::kFloat64, "x"));
  expect_gradients(rank, {&x}, [&] { return wrong(x.tensor()); });
}
TEST(GradientCheckItself, FindsAWrongRule) {
  EXPECT_NONFATAL_FAILURE(check_wrong_rule(), "central difference");
}

}  // namespace
}  // namespace zerolab
