#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "framework/kernels/weight_layout.h"
#include "framework/meta/backend.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

constexpr double kLinearRelative = 1e-5;
constexpr double kLinearAbsolute = 1e-4;  // of sums of some hundred terms around 1

struct Sizes {
  int64_t rows, in, out;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {33, 13, 7}, {7, 768, 13}, {65, 16, 48}};

struct Case {
  Sizes sizes;
  WeightLayout layout;
  bool flag;  ///< bias, or accumulate

  Shape x() const { return {sizes.rows, sizes.in}; }
  Shape y() const { return {sizes.rows, sizes.out}; }
  Shape weight() const {
    return layout == WeightLayout::kInOut ? Shape{sizes.in, sizes.out} : Shape{sizes.out, sizes.in};
  }
};

template <typename Body>
void for_cases(Body&& body) {
  for (const Sizes& sizes : kSizes) {
    for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
      for (const bool flag : {false, true}) {
        SCOPED_TRACE(fmt::format("{} rows, {} in, {} out, layout {}, {}", sizes.rows, sizes.in,
                                 sizes.out, static_cast<int>(layout), flag));
        body(Case{sizes, layout, flag});
      }
    }
  }
}

class CudaLinearKernels : public CudaKernels {};
INSTANTIATE_TEST_SUITE_P(, CudaLinearKernels, all_cases(), name_of_case);

TEST_P(CudaLinearKernels, ForwardIsPlains) {
  for_cases([&](const Case& c) {
    const Twin x = both.normal(c.x(), dtype, "x");
    const Twin weight = both.normal(c.weight(), dtype, "weight");
    const Twin bias = c.flag ? both.normal(Shape{c.sizes.out}, dtype, "bias") : Twin{};
    const Twin out = both.empty(c.y(), dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.linear_forward(stream, on(x), on(weight), c.layout, on(bias), on(out));
    });
    both.expect_close(out, kLinearRelative, kLinearAbsolute);
  });
}

// As one kernel, and where the library has none (7 and 13 are no multiples of 8) as two.
TEST_P(CudaLinearKernels, GeluForwardIsPlains) {
  for_cases([&](const Case& c) {
    const Twin x = both.normal(c.x(), dtype, "x");
    const Twin weight = both.normal(c.weight(), dtype, "weight");
    const Twin bias = c.flag ? both.normal(Shape{c.sizes.out}, dtype, "bias") : Twin{};
    const Twin pre_activation = both.empty(c.y(), dtype);
    const Twin out = both.empty(c.y(), dtype);
    const Twin alone = both.empty(c.y(), dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.linear_gelu_forward(stream, on(x), on(weight), c.layout, on(bias), on(pre_activation),
                                  on(out));
      backend.linear_gelu_forward(stream, on(x), on(weight), c.layout, on(bias), Tensor(),
                                  on(alone));
    });
    both.expect_close(pre_activation, kLinearRelative, kLinearAbsolute);
    // The GELU of a number that plain rounds first, to 8 or 11 bits.
    const double rounded = dtype == DType::kFloat32 ? 0.0 : 0x1p-6;
    both.expect_close(out, kLinearRelative + rounded, kLinearAbsolute + rounded);
    both.expect_close(alone, kLinearRelative + rounded, kLinearAbsolute + rounded);
  });
}

// 1 + 2^-8 is no bf16 number: the GELU of it is not the one of 1, which it is rounded to.
TEST(CudaLinear, GeluIsOfTheUnroundedProductWhereTheLibraryComputesIt) {
  Both both;
  const auto gelu_of = [&](int64_t columns) {
    const Tensor x = both.of<BFloat16>(Shape{1, 1}, {BFloat16(1.0F)}).cuda;
    const Tensor weight =
        both.of(Shape{1, columns}, std::vector<BFloat16>(columns, BFloat16(1.0F))).cuda;
    const Tensor bias =
        both.of(Shape{columns}, std::vector<BFloat16>(columns, BFloat16(0x1p-8F))).cuda;
    const Twin pre_activation = both.empty(Shape{1, columns}, DType::kBFloat16);
    const Twin out = both.empty(Shape{1, columns}, DType::kBFloat16);
    both.cuda.backend->linear_gelu_forward(both.cuda.stream, x, weight, WeightLayout::kInOut, bias,
                                           pre_activation.cuda, out.cuda);
    EXPECT_EQ(both.plain.numbers(both.computed(pre_activation))[0], 1.0);
    return both.plain.numbers(both.computed(out))[0];
  };
  EXPECT_EQ(gelu_of(8), 0x1.bp-1);   // GELU(1 + 2^-8) = 0.84542…
  EXPECT_EQ(gelu_of(7), 0x1.aep-1);  // GELU(1) = 0.84119…
}

TEST_P(CudaLinearKernels, BackwardInputIsPlains) {
  for_cases([&](const Case& c) {
    const Twin dy = both.normal(c.y(), dtype, "dy");
    const Twin weight = both.normal(c.weight(), dtype, "weight");
    const Twin dx = both.normal(c.x(), dtype, "dx");
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.linear_backward_input(stream, on(dy), on(weight), c.layout, on(dx), c.flag);
    });
    both.expect_close(dx, kLinearRelative, kLinearAbsolute);
  });
}

TEST_P(CudaLinearKernels, BackwardWeightIsPlains) {
  for (const DType gradient : {dtype, DType::kFloat32}) {
    for_cases([&](const Case& c) {
      const Twin x = both.normal(c.x(), dtype, "x");
      const Twin dy = both.normal(c.y(), dtype, "dy");
      const Twin dweight = both.normal(c.weight(), gradient, "dweight");
      both.run([&](Backend& backend, Stream& stream, auto on) {
        backend.linear_backward_weight(stream, on(x), on(dy), c.layout, on(dweight), c.flag);
      });
      both.expect_close(dweight, kLinearRelative, kLinearAbsolute);
    });
  }
}

// Parameters and their gradients are views of flat buffers that may begin at any element.
TEST_P(CudaLinearKernels, MatricesMayBeginAtAnyElement) {
  const Twin x = both.normal(Shape{33, 16}, dtype, "x");
  const Twin flat = both.normal(Shape{200}, dtype, "flat");
  const Twin weight = {flat.plain.range(1, 128).view(Shape{16, 8}),
                       flat.cuda.range(1, 128).view(Shape{16, 8})};
  const Twin bias = flat.range(131, 8);
  const Twin out = both.empty(Shape{33, 8}, dtype);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.linear_forward(stream, on(x), on(weight), WeightLayout::kInOut, on(bias), on(out));
  });
  both.expect_close(out, kLinearRelative, kLinearAbsolute);
}

TEST_P(CudaLinearKernels, SumsOverNothingAreZeroOrTheBias) {
  const Twin no_x = both.empty(Shape{0, 3}, dtype);
  const Twin no_dy = both.empty(Shape{0, 2}, dtype);
  const Twin kept = both.normal(Shape{3, 2}, dtype, "kept");
  const Twin zero = both.normal(Shape{3, 2}, dtype, "zero");
  const Twin x_of_none = both.empty(Shape{2, 0}, dtype);
  const Twin weight_of_none = both.empty(Shape{0, 2}, dtype);
  const Twin bias = both.normal(Shape{2}, dtype, "bias");
  const Twin out = both.empty(Shape{2, 2}, dtype);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    const WeightLayout layout = WeightLayout::kInOut;
    backend.linear_backward_weight(stream, on(no_x), on(no_dy), layout, on(kept), true);
    backend.linear_backward_weight(stream, on(no_x), on(no_dy), layout, on(zero), false);
    backend.linear_forward(stream, on(x_of_none), on(weight_of_none), layout, on(bias), on(out));
  });
  both.expect_same_bits(kept);
  both.expect_same_bits(zero);
  const std::vector<double> expected = both.plain.numbers(bias.plain);
  EXPECT_EQ(both.plain.numbers(both.computed(out)),
            (std::vector<double>{expected[0], expected[1], expected[0], expected[1]}));
}

// A product that is rounded before it is added would be half of bf16's last place, and be lost.
TEST(CudaLinear, AccumulationRoundsOnce) {
  Both both;
  const auto bf16 = [](float value) { return BFloat16(value); };
  const Twin x = both.of<BFloat16>(Shape{2, 1}, {bf16(1), bf16(1)});
  const Twin dy = both.of<BFloat16>(Shape{2, 1}, {bf16(0x1p-8F), bf16(0x1p-18F)});
  const Twin dweight = both.of<BFloat16>(Shape{1, 1}, {bf16(1)});
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.linear_backward_weight(stream, on(x), on(dy), WeightLayout::kInOut, on(dweight), true);
  });
  EXPECT_EQ(both.plain.numbers(both.computed(dweight)), std::vector<double>{1.0 + 0x1p-7});
}

// 1 + 2^-10 has 10 bits of fraction, 1 + 2^-12 has none of them.
TEST(CudaLinear, Tf32RoundsTheFactorsOfFp32Products) {
  set_device_seed(1);
  for (const bool tf32 : {false, true}) {
    CudaRank rank({.tf32 = tf32});
    const std::vector<float> values = {1.0F + 0x1p-10F, 1.0F + 0x1p-12F};
    const std::vector<float> ones(8, 1.0F);
    const Tensor x = rank.from_host(Shape{2, 1}, DType::kFloat32, std::as_bytes(std::span(values)));
    const Tensor weight =
        rank.from_host(Shape{1, 8}, DType::kFloat32, std::as_bytes(std::span(ones)));
    const Tensor out = Tensor::empty(rank.context, Shape{2, 8}, DType::kFloat32);
    rank.backend->linear_forward(rank.stream, x, weight, WeightLayout::kInOut, Tensor(), out);
    const std::vector<float> got = out.to_host<float>();
    EXPECT_EQ(got[0], values[0]);
    EXPECT_EQ(got[8], tf32 ? 1.0F : values[1]);
  }
}

TEST(CudaLinear, DryRunPredictsTheWorkspace) {
  const auto peaks_of = [](std::unique_ptr<Backend> backend) {
    const auto peak_of = [&](auto&& kernel) {
      RankContext context({}, *backend);
      const Tensor x = Tensor::zeros(context, Shape{3000, 16}, DType::kFloat32);
      const Tensor weight = Tensor::zeros(context, Shape{16, 8}, DType::kFloat32);
      const Tensor out = Tensor::empty(context, Shape{3000, 8}, DType::kFloat32);
      kernel(context.compute(), x, weight, out);
      return context.ledger().snapshot().peak_of(Category::kWorkspace);
    };
    return std::vector{
        peak_of([&](Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& out) {
          backend->linear_forward(stream, x, weight, WeightLayout::kInOut, Tensor(), out);
        }),
        peak_of([&](Stream& stream, const Tensor& x, const Tensor&, const Tensor&) {
          backend->sum_rows(stream, x, Tensor::empty(x.context(), Shape{16}, x.dtype()), false);
        })};
  };
  const std::unique_ptr<Backend> imitated = make_cuda_backend();
  const std::vector<int64_t> predicted = peaks_of(make_meta_backend(*imitated));
  EXPECT_EQ(peaks_of(make_cuda_backend()), predicted);
  EXPECT_GT(predicted[0], 0);
  EXPECT_GT(predicted[1], 0);
}

TEST_P(CudaLinearKernels, SumRowsIsPlains) {
  for (const int64_t rows : {0, 1, 33, 64, 65, 1000, 1025, 3000}) {
    for (const int64_t cols : {1, 13, 300}) {
      for (const DType gradient : {dtype, DType::kFloat32}) {
        SCOPED_TRACE(fmt::format("{} rows, {} cols", rows, cols));
        const double absolute = kLinearAbsolute + 1e-7 * static_cast<double>(rows);  // plain's too
        const Twin x = both.normal(Shape{rows, cols}, dtype, "x");
        const Twin sums = both.empty(Shape{cols}, gradient);
        const Twin more = both.normal(Shape{cols}, gradient, "more");
        both.run([&](Backend& backend, Stream& stream, auto on) {
          backend.sum_rows(stream, on(x), on(sums), false);
          backend.sum_rows(stream, on(x), on(more), true);
        });
        both.expect_close(sums, kLinearRelative, absolute);
        both.expect_close(more, kLinearRelative, absolute);
      }
    }
  }
}

TEST(CudaLinear, FewRowsAreAddedInTheirOrder) {
  Both both;
  const Twin x = both.normal(Shape{64, 300}, DType::kFloat32, "x");
  const Twin sums = both.empty(Shape{300}, DType::kFloat32);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.sum_rows(stream, on(x), on(sums), false);
  });
  both.expect_same_bits(sums);
}

}  // namespace
}  // namespace zerolab
