#include "models/mlp.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/ops/mse.h"
#include "framework/tensor/backend.h"
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

TEST(Mlp, In16BitsGradientsAreNearThoseInFp64) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    TestRank rank;
    const Mlp mlp({rank.context, 5, dtype, ""}, {3, 7, 5, 2});
    const Mlp wide({rank.context, 5, DType::kFloat64, ""}, {3, 7, 5, 2});
    const auto run = [&](const Mlp& model, DType type) {
      const Tensor out = model.forward(rank.coarse({4, 3}, type, "x"));
      const Tensor loss = ops::mse(out, rank.coarse({4, 2}, type, "target"));
      autograd::backward(loss, rank.ones_like(loss));
    };
    for (size_t p = 0; p < mlp.parameters().size(); ++p) {
      rank.backend->copy(rank.context.compute(), mlp.parameters()[p]->value(),
                         wide.parameters()[p]->value());
    }
    run(mlp, dtype);
    run(wide, DType::kFloat64);
    for (size_t p = 0; p < mlp.parameters().size(); ++p) {
      expect_near_largest(rank.numbers(mlp.parameters()[p]->gradient()),
                          rank.numbers(wide.parameters()[p]->gradient()), 4 * tolerance_of(dtype),
                          mlp.parameters()[p]->name());
    }
  }
}

TEST(Mlp, RefusesWrongSizes) {
  TestRank rank;
  const nn::Scope scope{rank.context, 1, DType::kFloat32, ""};
  EXPECT_THROW(Mlp(scope, {3}), Error);
  EXPECT_THROW(Mlp(scope, {3, 0}), Error);
}

}  // namespace
}  // namespace zerolab
