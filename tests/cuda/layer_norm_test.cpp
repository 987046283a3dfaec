#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/compare.h"

namespace zerolab {
namespace {

constexpr float kTolerance = 1e-5F;

class CudaLayerNorm : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, CudaLayerNorm, kDeviceTypes, type_name);

template <typename Body>
void for_sizes(Body&& body) {
  for (const int64_t rows : {1, 33, 130}) {
    for (const int64_t cols : {1, 13, 768}) {
      SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(cols) + " cols");
      body(rows, cols);
    }
  }
}

/// Those of any rows: the backward takes them as they are given.
Tensor mean_of(Side& side, int64_t rows) {
  return side.statistics(Shape{rows}, random_numbers(rows, 11, 0.1F));
}
Tensor rstd_of(Side& side, int64_t rows) {
  std::vector<float> values = random_numbers(rows, 12, 0.1F);
  for (float& value : values) {
    value += 1.0F;
  }
  return side.statistics(Shape{rows}, values);
}

TEST_P(CudaLayerNorm, ForwardIsPlains) {
  for_sizes([&](int64_t rows, int64_t cols) {
    for (const bool has_bias : {false, true}) {
      compare(
          GetParam(),
          [&](Side& side) {
            const Tensor x = side.random(Shape{rows, cols}, 1, 3.0F);
            const Tensor weight = side.random(Shape{cols}, 2);
            const Tensor bias = has_bias ? side.random(Shape{cols}, 3) : Tensor();
            const Tensor out = side.random(Shape{rows, cols}, 4);
            const Tensor mean = side.statistics(Shape{rows}, random_numbers(rows, 5));
            const Tensor rstd = side.statistics(Shape{rows}, random_numbers(rows, 6));
            side.backend().layer_norm_forward(side.stream(), x, weight, bias, 1e-5, out, mean,
                                              rstd);
            return std::vector<Tensor>{out, mean, rstd};
          },
          kTolerance);
    }
  });
}

TEST(CudaLayerNorm, FarFromZeroTheVarianceIsStillRight) {
  compare(
      DType::kFloat32,
      [&](Side& side) {
        std::vector<float> values = random_numbers(768, 1);
        for (float& value : values) {
          value += 1000.0F;
        }
        const Tensor x = side.tensor(Shape{1, 768}, values, DType::kFloat32);
        const Tensor weight = side.random(Shape{768}, 2);
        const Tensor out = side.random(Shape{1, 768}, 3);
        const Tensor mean = side.statistics(Shape{1}, {0});
        const Tensor rstd = side.statistics(Shape{1}, {0});
        side.backend().layer_norm_forward(side.stream(), x, weight, Tensor(), 1e-5, out, mean,
                                          rstd);
        return std::vector<Tensor>{mean, rstd};
      },
      kTolerance);
}

TEST_P(CudaLayerNorm, BackwardInputIsPlains) {
  for_sizes([&](int64_t rows, int64_t cols) {
    for (const bool accumulate : {false, true}) {
      compare(
          GetParam(),
          [&](Side& side) {
            const Tensor x = side.random(Shape{rows, cols}, 1);
            const Tensor weight = side.random(Shape{cols}, 2);
            const Tensor dy = side.random(Shape{rows, cols}, 3);
            const Tensor dx = side.random(Shape{rows, cols}, 4);
            side.backend().layer_norm_backward_input(side.stream(), x, weight, mean_of(side, rows),
                                                     rstd_of(side, rows), dy, dx, accumulate);
            return std::vector<Tensor>{dx};
          },
          kTolerance);
    }
  });
}

TEST_P(CudaLayerNorm, BackwardParametersIsPlains) {
  for_sizes([&](int64_t rows, int64_t cols) {
    for (const bool wide : {false, true}) {
      compare(
          GetParam(),
          [&](Side& side) {
            const Tensor x = side.random(Shape{rows, cols}, 1);
            const Tensor dy = side.random(Shape{rows, cols}, 2);
            const Tensor mean = mean_of(side, rows);
            const Tensor rstd = rstd_of(side, rows);
            const Tensor dweight = side.gradient(Shape{cols}, 3, wide);
            const Tensor dbias = side.gradient(Shape{cols}, 4, wide);
            const Tensor dbias_alone = side.gradient(Shape{cols}, 5, wide);
            Backend& backend = side.backend();
            backend.layer_norm_backward_parameters(side.stream(), x, mean, rstd, dy, dweight, true,
                                                   dbias, false);
            backend.layer_norm_backward_parameters(side.stream(), x, mean, rstd, dy, Tensor(),
                                                   false, dbias_alone, true);
            return std::vector<Tensor>{dweight, dbias, dbias_alone};
          },
          kTolerance);
    }
  });
}

}  // namespace
}  // namespace zerolab
