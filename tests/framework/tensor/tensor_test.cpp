#include "framework/tensor/tensor.h"

#include <gtest/gtest.h>

#include <string>

#include "framework/autograd/parameter.h"
#include "framework/core/error.h"
#include "framework/ops/elementwise.h"
#include "tests/framework/test_rank.h"

namespace zerolab {
namespace {

TEST(Tensor, ViewsShareMemoryAndCheckTheirRange) {
  TestRank rank;
  const Tensor a = rank.tensor<float>({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(a.range(2, 3).to_host<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_TRUE(a.view({6}).same_memory(a));
  EXPECT_EQ(a.reinterpret(DType::kInt64).shape(), Shape{3});
  EXPECT_FALSE(a.is_unique() && a.view({3, 2}).is_unique());
  EXPECT_THROW(a.view({5}), Error);
  EXPECT_THROW(a.range(4, 3), Error);
  EXPECT_THROW(a.range(0, 3).reinterpret(DType::kInt64), Error);
  EXPECT_THROW(a.to_host<double>(), Error);
  EXPECT_THROW(a.item(), Error);
  EXPECT_THROW(rank.tensor<float>({4}, {1, 2}), Error);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5}), Error);
}

/// Without the check, the gradient of the whole would silently be that of nothing.
TEST(Tensor, ARangeOfWhatHasHistoryIsRefused) {
  TestRank rank;
  const Parameter parameter("w", rank.tensor<float>({4}, {1, 2, 3, 4}));
  const Tensor with_history = ops::relu(parameter.tensor());
  const auto message_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const Tensor& tensor : {with_history, parameter.tensor()}) {
    EXPECT_EQ(message_of([&] { tensor.range(1, 2); }),
              "[tensor] range() drops the gradient; got a tensor [4] with history, expected one "
              "without; use ops::slice, or detached() where no gradient is wanted");
    EXPECT_NE(message_of([&] { tensor.reinterpret(DType::kInt32); }).find("[tensor] reinterpret()"),
              std::string::npos);
    EXPECT_EQ(tensor.detached().range(1, 2).to_host<float>(), (std::vector<float>{2, 3}));
    const NoGradScope no_grad(rank.context);
    EXPECT_EQ(tensor.range(1, 2).to_host<float>(), (std::vector<float>{2, 3}));
  }
}

}  // namespace
}  // namespace zerolab
