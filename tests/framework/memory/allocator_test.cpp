#include "framework/memory/allocator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "framework/tensor/backend.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

TEST(Allocator, BlocksAreAlignedAndPoisoned) {
  TestRank rank({.poison = true});
  const Tensor a = Tensor::empty(rank.context, {33}, DType::kFloat32);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.raw()) % 64, 0U);
  for (const float value : a.to_host<float>()) {
    EXPECT_TRUE(std::isnan(value));
  }
}

TEST(Allocator, BlocksAreFreedInStreamOrder) {
  TestRank rank({.poison = true, .streams = StreamMode::kLazy});
  const Tensor out = Tensor::empty(rank.context, {2}, DType::kFloat32);
  {
    const Tensor temporary = rank.tensor<float>({2}, {1, 2});
    rank.backend->copy(rank.context.compute(), temporary, out);
  }
  EXPECT_EQ(rank.context.ledger().snapshot().total, out.bytes());
  EXPECT_EQ(out.to_host<float>(), (std::vector<float>{1, 2}));
}

}  // namespace
}  // namespace zerolab
