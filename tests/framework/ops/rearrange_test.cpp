#include "framework/ops/rearrange.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/ops/attention.h"
#include "framework/ops/positions.h"
#include "framework/ops/softmax.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

using Numbers = std::vector<float>;

class Rearrange : public testing::Test {
 protected:
  /// 0, 1, 2, … in order.
  Tensor counted(const Shape& shape) {
    Numbers values(shape.numel());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i);
    }
    return rank_.tensor(shape, values);
  }
  TestRank rank_;
};

TEST_F(Rearrange, SliceTakesARangeOfAnAxis) {
  const Tensor x = counted({2, 3, 2});
  EXPECT_EQ(ops::slice(x, 1, 1, 2).to_host<float>(), (Numbers{2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(ops::slice(x, 1, 1, 2).shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(ops::slice(x, -1, 1, 1).to_host<float>(), (Numbers{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(ops::slice(x, 0, 1, 0).shape(), (Shape{0, 3, 2}));
}

TEST_F(Rearrange, ConcatenateJoinsAlongAnAxis) {
  const Tensor joined = ops::concatenate(counted({2, 2}), counted({2, 1}), 1);
  EXPECT_EQ(joined.to_host<float>(), (Numbers{0, 1, 0, 2, 3, 1}));
  EXPECT_EQ(joined.shape(), (Shape{2, 3}));
  EXPECT_EQ(ops::concatenate(counted({1, 2}), counted({2, 2}), 0).to_host<float>(),
            (Numbers{0, 1, 0, 1, 2, 3}));
}

TEST_F(Rearrange, TransposeExchangesTwoAxes) {
  EXPECT_EQ(ops::transpose(counted({2, 3}), 0, 1).to_host<float>(), (Numbers{0, 3, 1, 4, 2, 5}));
  const Tensor turned = ops::transpose(counted({2, 2, 3}), -1, 1);
  EXPECT_EQ(turned.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(turned.to_host<float>(), (Numbers{0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}));
}

TEST_F(Rearrange, RefusesWhatDoesNotFit) {
  const Tensor x = counted({2, 3});
  EXPECT_THROW(ops::slice(x, 1, 2, 2), Error);
  EXPECT_THROW(ops::slice(x, 2, 0, 1), Error);
  EXPECT_THROW(ops::slice(x, 0, -1, 1), Error);
  EXPECT_THROW(ops::concatenate(x, counted({3, 3}), 1), Error);
  EXPECT_THROW(ops::concatenate(x, counted({3}), 0), Error);
  EXPECT_THROW(ops::transpose(x, 0, -3), Error);
}

TEST_F(Rearrange, MeanAndSoftmaxOfKnownNumbers) {
  const Tensor x = rank_.tensor<float>({1, 2, 2}, {1, 5, 2, -1});
  EXPECT_EQ(ops::mean_positions(x).to_host<float>(), (Numbers{1.5F, 2.0F}));
  EXPECT_THROW(ops::mean_positions(counted({2, 3})), Error);
  // Numbers whose exponentials are infinite.
  const Tensor rows = rank_.tensor<float>({2, 2}, {1000, 1000, 0, 1000});
  EXPECT_EQ(ops::softmax(rows).to_host<float>(), (Numbers{0.5F, 0.5F, 0, 1}));
}

/// Where all positions see each other, their order does not matter.
TEST_F(Rearrange, FullAttentionFollowsItsPositions) {
  const Tensor qkv = rank_.normal({1, 2, 12}, DType::kFloat64, "qkv");
  const Tensor swapped = ops::concatenate(ops::slice(qkv, 1, 1, 1), ops::slice(qkv, 1, 0, 1), 1);
  const std::vector<double> out = rank_.numbers(ops::full_attention(qkv, 2));
  const std::vector<double> other = rank_.numbers(ops::full_attention(swapped, 2));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(out[i], other[4 + i], 1e-12);
    EXPECT_NEAR(out[4 + i], other[i], 1e-12);
  }
  const std::vector<double> causal = rank_.numbers(ops::causal_attention(qkv, 2));
  EXPECT_GT(std::abs(out[0] - causal[0]), 1e-3);  // the first position sees the second
  EXPECT_NEAR(out[4], causal[4], 1e-12);          // the last saw all before
}

}  // namespace
}  // namespace zerolab
