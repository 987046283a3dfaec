#include <gtest/gtest.h>

#include "framework/autograd/parameter.h"
#include "framework/core/error.h"
#include "framework/ops/attention.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

TEST(AttentionOfTheLast, IsTheLastRowOfAttention) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const int64_t length : {1, 2, 7}) {
      TestRank rank;
      const Tensor qkv = rank.normal(Shape{2, length, 18}, dtype, "qkv");
      const std::vector<double> all = rank.numbers(ops::causal_attention(qkv, 3));
      std::vector<double> expected;
      for (int64_t b = 0; b < 2; ++b) {
        const auto row = all.begin() + (b * length + length - 1) * 6;
        expected.insert(expected.end(), row, row + 6);
      }
      const Tensor last = ops::causal_attention_of_last(qkv, 3);
      EXPECT_EQ(last.shape(), (Shape{2, 1, 6}));
      EXPECT_EQ(rank.numbers(last), expected);
    }
  }
}

TEST(AttentionOfTheLast, RefusesWhatCannotBe) {
  TestRank rank;
  const auto qkv = [&](const Shape& shape) { return rank.normal(shape, DType::kFloat32, "qkv"); };
  EXPECT_THROW(ops::causal_attention_of_last(qkv({2, 0, 18}), 3), Error);
  EXPECT_THROW(ops::causal_attention_of_last(qkv({2, 3, 18}), 4), Error);
  EXPECT_THROW(ops::causal_attention_of_last(qkv({3, 18}), 3), Error);
  EXPECT_THROW(ops::causal_attention_of_last(Tensor(), 3), Error);
  const Parameter parameter("p", qkv({1, 2, 18}));
  EXPECT_THROW(ops::causal_attention_of_last(parameter.tensor(), 3), Error);
  const NoGradScope no_grad(rank.context);
  EXPECT_NO_THROW(ops::causal_attention_of_last(parameter.tensor(), 3));
}

}  // namespace
}  // namespace zerolab
