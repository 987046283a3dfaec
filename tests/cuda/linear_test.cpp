#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/cuda/cuda_backend.h"
#include "framework/meta/backend.h"
#include "tests/cuda/compare.h"

namespace zerolab {
namespace {

constexpr float kTolerance = 1e-5F;

class CudaLinear : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CudaLinear, kDeviceTypes, type_name);

struct Sizes {
  int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {33, 13, 7}, {7, 768, 13}, {65, 16, 48}};

struct Case {
  Sizes sizes;
  WeightLayout layout;
  bool flag;  ///< bias, or accumulate

  Shape weight() const {
    return layout == WeightLayout::kInOut ? Shape{sizes.in, sizes.out} : Shape{sizes.out, sizes.in};
  }
};

template <typename Body>
void for_cases(Body&& body) {
  for (const Sizes& sizes : kSizes) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(std::to_string(sizes.rows) + " rows, " + std::to_string(sizes.in) + " in, " +
                     std::to_string(sizes.out) + " out, layout " +
                     std::to_string(static_cast<int>(layout)) + ", " + std::to_string(flag));
        body(Case{sizes, layout, flag});
      }
    }
  }
}

TEST_P(CudaLinear, ForwardIsPlains) {
  for_cases([&](const Case& c) {
    compare(
        GetParam(),
        [&](Side& side) {
          const Tensor x = side.random(Shape{c.sizes.rows, c.sizes.in}, 1);
          const Tensor weight = side.random(c.weight(), 2);
          const Tensor bias = c.flag ? side.random(Shape{c.sizes.out}, 3) : Tensor();
          const Tensor out = side.random(Shape{c.sizes.rows, c.sizes.out}, 4);
          side.backend().linear_forward(side.stream(), x, weight, c.layout, bias, out);
          return std::vector<Tensor>{out};
        },
        kTolerance);
  });
}

TEST_P(CudaLinear, BackwardInputIsPlains) {
  for_cases([&](const Case& c) {
    compare(
        GetParam(),
        [&](Side& side) {
          const Tensor dy = side.random(Shape{c.sizes.rows, c.sizes.out}, 1);
          const Tensor weight = side.random(c.weight(), 2);
          const Tensor dx = side.random(Shape{c.sizes.rows, c.sizes.in}, 3);
          side.backend().linear_backward_input(side.stream(), dy, weight, c.layout, dx, c.flag);
          return std::vector<Tensor>{dx};
        },
        kTolerance);
  });
}

TEST_P(CudaLinear, BackwardWeightIsPlains) {
  for (const bool wide : {false, true}) {
    for_cases([&](const Case& c) {
      compare(
          GetParam(),
          [&](Side& side) {
            const Tensor x = side.random(Shape{c.sizes.rows, c.sizes.in}, 1);
            const Tensor dy = side.random(Shape{c.sizes.rows, c.sizes.out}, 2);
            const Tensor dweight = side.gradient(c.weight(), 3, wide);
            side.backend().linear_backward_weight(side.stream(), x, dy, c.layout, dweight, c.flag);
            return std::vector<Tensor>{dweight};
          },
          kTolerance);
    });
  }
}

// Parameters and their gradients are views of flat buffers that may begin at any element.
TEST_P(CudaLinear, MatricesMayBeginAtAnyElement) {
  compare(
      GetParam(),
      [&](Side& side) {
        const Tensor x = side.random(Shape{33, 16}, 1);
        const Tensor weight = side.random(Shape{16 * 8 + 1}, 2).range(1, 128).view(Shape{16, 8});
        const Tensor bias = side.random(Shape{11}, 3).range(3, 8);
        const Tensor out = side.random(Shape{33, 8}, 4);
        side.backend().linear_forward(side.stream(), x, weight, WeightLayout::kInOut, bias, out);
        return std::vector<Tensor>{out};
      },
      kTolerance);
}

TEST_P(CudaLinear, SumsOverNothingAreZeroOrTheBias) {
  Side side = Side::device(GetParam());
  const Tensor nothing = side.random(Shape{0, 3}, 1);
  const Tensor no_gradient = side.random(Shape{0, 2}, 1);
  const Tensor dweight = side.tensor(Shape{3, 2}, {1, 2, 3, 4, 5, 6}, side.type);
  side.backend().linear_backward_weight(side.stream(), nothing, no_gradient, WeightLayout::kInOut,
                                        dweight, true);
  EXPECT_EQ(values_of(dweight), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  side.backend().linear_backward_weight(side.stream(), nothing, no_gradient, WeightLayout::kInOut,
                                        dweight, false);
  EXPECT_EQ(values_of(dweight), std::vector<float>(6, 0.0F));

  const Tensor out = side.random(Shape{2, 2}, 1);
  side.backend().linear_forward(side.stream(), side.random(Shape{2, 0}, 1),
                                side.random(Shape{0, 2}, 1), WeightLayout::kInOut,
                                side.tensor(Shape{2}, {5, 7}, side.type), out);
  EXPECT_EQ(values_of(out), (std::vector<float>{5, 7, 5, 7}));
}

// A product that is rounded before it is added would be half of bf16's last place, and be lost.
TEST(CudaLinear, AccumulationRoundsOnce) {
  Side side = Side::device(DType::kBFloat16);
  const Tensor x = side.tensor(Shape{2, 1}, {1, 1}, side.type);
  const Tensor dy = side.tensor(Shape{2, 1}, {0x1p-8F, 0x1p-18F}, side.type);
  const Tensor dweight = side.tensor(Shape{1, 1}, {1}, side.type);
  side.backend().linear_backward_weight(side.stream(), x, dy, WeightLayout::kInOut, dweight, true);
  EXPECT_EQ(values_of(dweight), std::vector<float>{1.0F + 0x1p-7F});
}

TEST(CudaLinear, DryRunPredictsTheWorkspace) {
  const auto peak_of = [](std::unique_ptr<Backend> backend) {
    Rank rank(std::move(backend), 1);
    const Tensor x = Tensor::zeros(rank.context, Shape{33, 16}, DType::kFloat32);
    const Tensor weight = Tensor::zeros(rank.context, Shape{16, 8}, DType::kFloat32);
    const Tensor out = Tensor::zeros(rank.context, Shape{33, 8}, DType::kFloat32);
    rank.backend->linear_forward(rank.stream(), x, weight, WeightLayout::kInOut, Tensor(), out);
    return rank.context.ledger().snapshot().peak_of(Category::kWorkspace);
  };
  const std::unique_ptr<Backend> imitated = make_cuda_backend();
  const int64_t predicted = peak_of(make_meta_backend(*imitated));
  EXPECT_EQ(peak_of(make_cuda_backend()), predicted);
  EXPECT_GT(predicted, 0);
}

TEST_P(CudaLinear, SumRowsIsPlains) {
  for (const int64_t rows : {0, 1, 33, 64, 65, 1000}) {
    for (const int64_t cols : {1, 13, 300}) {
      for (const bool wide : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(cols) + " cols");
        compare(
            GetParam(),
            [&](Side& side) {
              const Tensor x = side.random(Shape{rows, cols}, 1);
              const Tensor sums = side.gradient(Shape{cols}, 2, wide);
              const Tensor more = side.gradient(Shape{cols}, 3, wide);
              side.backend().sum_rows(side.stream(), x, sums, false);
              side.backend().sum_rows(side.stream(), x, more, true);
              return std::vector<Tensor>{sums, more};
            },
            kTolerance);
      }
    }
  }
}

TEST(CudaLinear, FewRowsAreAddedInTheirOrder) {
  Side side = Side::device(DType::kFloat32);
  const Tensor sums = side.random(Shape{1}, 1);
  // In any other order, or in higher precision, the result would be another.
  side.backend().sum_rows(side.stream(), side.tensor(Shape{4, 1}, {1, 1e8F, -1e8F, 1}, side.type),
                          sums, false);
  EXPECT_EQ(values_of(sums), std::vector<float>{1.0F});
}

}  // namespace
}  // namespace zerolab
