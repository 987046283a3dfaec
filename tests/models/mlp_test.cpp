#include "models/mlp.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/ops/mse.h"
#include "tests/framework/gradient_check.h"

namespace zerolab {
namespace {

TEST(Mlp, HasTheRightGradients) {
  TestRank rank;
  const Mlp mlp({rank.context, 5, DType::kFloat64, ""}, {3, 7, 5, 2});
  ASSERT_EQ(mlp.parameters().size(), 6U);
  EXPECT_EQ(mlp.parameters()[2]->name(), "layers.1.weight");
  const Tensor x = rank.normal({4, 3}, DType::kFloat64, "x");
  const Tensor target = rank.normal({4, 2}, DType::kFloat64, "target");
  expect_gradients(rank, mlp.parameters(), [&] { return ops::mse(mlp.forward(x), target); });
}

TEST(Mlp, RefusesWrongSizes) {
  TestRank rank;
  const nn::Scope scope{rank.context, 1, DType::kFloat32, ""};
  EXPECT_THROW(Mlp(scope, {3}), Error);
  EXPECT_THROW(Mlp(scope, {3, 0}), Error);
}

}  // namespace
}  // namespace zerolab
