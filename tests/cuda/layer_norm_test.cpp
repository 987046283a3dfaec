#include <fmt/core.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/cuda/both.h"

namespace zerolab {
namespace {

constexpr double kRelative = 1e-5;
constexpr double kAbsolute = 2e-5;

template <typename Body>
void for_sizes(Body&& body) {
  for (const int64_t rows : {1, 33, 130}) {
    for (const int64_t cols : {1, 13, 768}) {
      SCOPED_TRACE(fmt::format("{} rows, {} cols", rows, cols));
      body(rows, cols);
    }
  }
}

class CudaLayerNormKernels : public CudaKernels {
 protected:
  /// Those of other rows do as well: the backward takes them as they are given.
  Twin mean_of(int64_t rows) { return both.normal(Shape{rows}, DType::kFloat32, "mean"); }
  Twin rstd_of(int64_t rows) { return both.normal(Shape{rows}, DType::kFloat32, "rstd"); }
};
INSTANTIATE_TEST_SUITE_P(, CudaLayerNormKernels, all_cases(), name_of_case);

TEST_P(CudaLayerNormKernels, ForwardIsPlains) {
  for_sizes([&](int64_t rows, int64_t cols) {
    for (const bool has_bias : {false, true}) {
      const Twin x = both.normal(Shape{rows, cols}, dtype, "x");
      const Twin weight = both.normal(Shape{cols}, dtype, "weight");
      const Twin bias = has_bias ? both.normal(Shape{cols}, dtype, "bias") : Twin{};
      const Twin out = both.empty(Shape{rows, cols}, dtype);
      const Twin mean = both.empty(Shape{rows}, DType::kFloat32);
      const Twin rstd = both.empty(Shape{rows}, DType::kFloat32);
      both.run([&](Backend& backend, Stream& stream, auto on) {
        backend.layer_norm_forward(stream, on(x), on(weight), on(bias), 1e-5, on(out), on(mean),
                                   on(rstd));
      });
      both.expect_close(out, kRelative, kAbsolute);
      both.expect_close(mean, kRelative, 1e-6);
      both.expect_close(rstd, kRelative, 0.0);
    }
  });
}

// A mean of squares less the square of the mean would lose the variance here.
TEST(CudaLayerNorm, VarianceIsExactFarFromZero) {
  Both both;
  const Twin x = both.of<float>(Shape{1, 4}, {4096.0F, 4097.0F, 4098.0F, 4099.0F});
  const Twin weight = both.of<float>(Shape{4}, {1, 1, 1, 1});
  const Twin out = both.empty(Shape{1, 4}, DType::kFloat32);
  const Twin mean = both.empty(Shape{1}, DType::kFloat32);
  const Twin rstd = both.empty(Shape{1}, DType::kFloat32);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.layer_norm_forward(stream, on(x), on(weight), Tensor(), 0.0, on(out), on(mean),
                               on(rstd));
  });
  EXPECT_EQ(both.plain.numbers(both.computed(mean)), std::vector<double>{4097.5});
  both.expect_close(rstd, 1e-6, 0.0);
}

TEST_P(CudaLayerNormKernels, BackwardInputIsPlains) {
  for_sizes([&](int64_t rows, int64_t cols) {
    const Twin x = both.normal(Shape{rows, cols}, dtype, "x");
    const Twin weight = both.normal(Shape{cols}, dtype, "weight");
    const Twin mean = mean_of(rows);
    const Twin rstd = rstd_of(rows);
    const Twin dy = both.normal(Shape{rows, cols}, dtype, "dy");
    const Twin dx = both.empty(Shape{rows, cols}, dtype);
    const Twin more = both.normal(Shape{rows, cols}, dtype, "more");
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.layer_norm_backward_input(stream, on(x), on(weight), on(mean), on(rstd), on(dy),
                                        on(dx), false);
      backend.layer_norm_backward_input(stream, on(x), on(weight), on(mean), on(rstd), on(dy),
                                        on(more), true);
    });
    both.expect_close(dx, kRelative, kAbsolute);
    both.expect_close(more, kRelative, kAbsolute);
  });
}

TEST_P(CudaLayerNormKernels, BackwardParametersIsPlains) {
  for_sizes([&](int64_t rows, int64_t cols) {
    for (const DType gradient : {dtype, DType::kFloat32}) {
      const Twin x = both.normal(Shape{rows, cols}, dtype, "x");
      const Twin mean = mean_of(rows);
      const Twin rstd = rstd_of(rows);
      const Twin dy = both.normal(Shape{rows, cols}, dtype, "dy");
      const Twin dweight = both.normal(Shape{cols}, gradient, "dweight");
      const Twin dbias = both.empty(Shape{cols}, gradient);
      const Twin dbias_alone = both.normal(Shape{cols}, gradient, "dbias");
      both.run([&](Backend& backend, Stream& stream, auto on) {
        backend.layer_norm_backward_parameters(stream, on(x), on(mean), on(rstd), on(dy),
                                               on(dweight), true, on(dbias), false);
        backend.layer_norm_backward_parameters(stream, on(x), on(mean), on(rstd), on(dy), Tensor(),
                                               false, on(dbias_alone), true);
      });
      both.expect_close(dweight, kRelative, 1e-4);
      both.expect_close(dbias, kRelative, 1e-4);
      both.expect_close(dbias_alone, kRelative, 1e-4);
    }
  });
}

}  // namespace
}  // namespace zerolab
