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

TEST_P(CudaLayerNormKernels, OfASumHasTheBitsOfAddAndForward) {
  for_sizes([&](int64_t rows, int64_t cols) {
    const Twin a = both.normal(Shape{rows, cols}, dtype, "a");
    const Twin b = both.normal(Shape{rows, cols}, dtype, "b");
    const Twin weight = both.normal(Shape{cols}, dtype, "weight");
    const Twin bias = both.normal(Shape{cols}, dtype, "bias");
    CudaRank& rank = both.cuda;
    const auto forward = [&](bool fused) {
      const Tensor sum = Tensor::empty_like(a.cuda);
      const Tensor out = Tensor::empty_like(a.cuda);
      const Tensor mean = Tensor::empty(rank.context, Shape{rows}, DType::kFloat32);
      const Tensor rstd = Tensor::empty_like(mean);
      if (fused) {
        rank.backend->add_layer_norm_forward(rank.stream, a.cuda, b.cuda, weight.cuda, bias.cuda,
                                             1e-5, sum, out, mean, rstd);
      } else {
        rank.backend->add(rank.stream, a.cuda, b.cuda, sum);
        rank.backend->layer_norm_forward(rank.stream, sum, weight.cuda, bias.cuda, 1e-5, out, mean,
                                         rstd);
      }
      return std::vector{rank.to_host(sum), rank.to_host(out), rank.to_host(mean),
                         rank.to_host(rstd)};
    };
    EXPECT_EQ(forward(true), forward(false));
  });
}

TEST_P(CudaLayerNormKernels, BitsDoNotDependOnWhereTensorsBegin) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kCols = 768;
  const Twin flat = both.normal(Shape{4 * (kRows + 1) * kCols}, dtype, "flat");
  const Twin mean = mean_of(kRows);
  const Twin rstd = rstd_of(kRows);
  CudaRank& rank = both.cuda;
  const auto results_from = [&](int64_t offset) {
    const Tensor memory = Tensor::empty(rank.context, Shape{flat.cuda.numel() + 8}, dtype);
    const auto part = [&](int64_t index, const Shape& shape) {
      return memory.range(offset + index * kRows * kCols, shape.numel()).view(shape);
    };
    rank.backend->copy(rank.stream, flat.cuda, memory.range(offset, flat.cuda.numel()));
    const Shape shape{kRows, kCols};
    const Tensor x = part(0, shape);
    const Tensor weight = part(1, Shape{kCols});
    const Tensor out = part(2, shape);
    const Tensor dx = part(3, shape);
    const Tensor new_mean = Tensor::empty_like(mean.cuda);
    rank.backend->layer_norm_forward(rank.stream, x, weight, Tensor(), 1e-5, out, new_mean,
                                     Tensor::empty_like(rstd.cuda));
    rank.backend->layer_norm_backward_input(rank.stream, x, weight, mean.cuda, rstd.cuda, out, dx,
                                            true);
    return std::vector{rank.to_host(out), rank.to_host(new_mean), rank.to_host(dx)};
  };
  EXPECT_EQ(results_from(0), results_from(1));
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
