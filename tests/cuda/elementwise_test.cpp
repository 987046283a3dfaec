#include <limits>

#include "framework/core/error.h"
#include "tests/cuda/both.h"
#include "tests/framework/onednn_rank.h"

namespace zerolab {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Every case of a conversion: normal, subnormal, ties, overflow, infinities and NaNs.
std::vector<float> hard_numbers() {
  std::vector<float> numbers = {
      0.0F,     -0.0F,    kInfinity,  -kInfinity, 65504.0F,  65519.9F,  65520.0F,     1e6F,
      0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1p-14F,   0x1p-133F, 0x1p-134F, 0x1.01p-126F, 3.4e38F};
  for (const uint32_t bits : {0x7FC00000U, 0xFFC00000U, 0x7F812345U, 0xFFABCDEFU, 0x7FFFFFFFU}) {
    numbers.push_back(std::bit_cast<float>(bits));
  }
  for (uint32_t i = 0; i < 1000; ++i) {  // around every tie of 7 and of 10 bits of fraction
    numbers.push_back(std::bit_cast<float>(0x3F800000U + i * 0x800U + i % 3 - 1));
    numbers.push_back(-std::bit_cast<float>(0x33000000U + i * 0x10000U + i % 3 - 1));
  }
  return numbers;
}

TEST(CudaConversion, RoundsAsTheHostDoes) {
  Both both;
  const std::vector<float> numbers = hard_numbers();
  const Shape shape{static_cast<int64_t>(numbers.size())};
  const Twin wide = both.of(shape, numbers);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    const Twin narrow = both.empty(shape, dtype);
    const Twin back = both.empty(shape, DType::kFloat32);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.copy(stream, on(wide), on(narrow));
      backend.copy(stream, on(narrow), on(back));
    });
    both.expect_same_bits(narrow);
    both.expect_same_bits(back);
  }
}

TEST(CudaConversion, RefusesFloat64) {
  CudaRank rank;
  const Tensor wide = Tensor::empty(rank.context, {3}, DType::kFloat64);
  try {
    rank.backend->relu_forward(rank.stream, wide, wide);
    FAIL() << "fp64 was accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[cuda] the cuda backend computes in fp32, bf16 and fp16; got fp64");
  }
}

TEST(CudaFill, WritesEveryDtype) {
  Both both;
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64,
                            DType::kBFloat16, DType::kFloat16}) {
    const Twin out = both.empty({103}, dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.fill(stream, on(out), -7.3);
      backend.fill(stream, on(out.range(3, 50)), 2.7);
    });
    both.expect_same_bits(out);
  }
}

TEST_P(CudaKernels, AccumulatesAnyTwoDtypes) {
  for (const DType from : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const Twin source = both.normal({1000}, from, "source");
    const Twin out = both.normal({1000}, dtype, "out");
    both.run([&](Backend& backend, Stream& stream, auto on) {
      for_cuts(1000, from != DType::kFloat32, [&](int64_t begin, int64_t numel) {
        backend.accumulate(stream, on(source.range(begin, numel)), on(out.range(begin, numel)));
      });
    });
    both.expect_same_bits(out);
  }
}

TEST_P(CudaKernels, AddsWithAPeriod) {
  for (const int64_t period : {1000, 200, 8, 5, 1}) {
    const Twin a = both.normal({1000}, dtype, "a");
    const Twin b = both.normal({period}, dtype, "b");
    const Twin out = both.empty({1000}, dtype);
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.add(stream, on(a), on(b), on(out));
      backend.add(stream, on(out), on(b), on(out));
    });
    both.expect_same_bits(out);
  }
}

TEST_P(CudaKernels, ScalesAndRectifies) {
  for (const int64_t numel : {1, 7, 1024, 2051}) {
    const Twin x = both.normal({numel}, dtype, "x");
    const Twin dy = both.normal({numel}, dtype, "dy");
    const Twin scaled = both.normal({numel}, dtype, "scaled");
    const Twin y = both.empty({numel}, dtype);
    const Twin dx = both.normal({numel}, dtype, "dx");
    both.run([&](Backend& backend, Stream& stream, auto on) {
      backend.scale(stream, on(x), 1.7, on(scaled), true);
      backend.scale(stream, on(scaled), -0.3, on(scaled), false);
      backend.relu_forward(stream, on(x), on(y));
      backend.relu_backward(stream, on(x), on(dy), on(dx), true);
      backend.relu_backward(stream, on(x), on(dy), on(dy), false);
    });
    for (const Twin& out : {scaled, y, dx, dy}) {
      both.expect_same_bits(out);
    }
  }
}

TEST_P(CudaKernels, ReluKeepsNaN) {
  const Twin x = both.empty({20}, dtype);
  const Twin y = both.empty({20}, dtype);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.fill(stream, on(x), std::numeric_limits<double>::quiet_NaN());
    backend.relu_forward(stream, on(x), on(y));
  });
  both.expect_same_bits(y);
}

TEST_P(CudaKernels, GeluIsPlains) {
  const Twin x = both.normal({3001}, dtype, "x");
  const Twin dy = both.normal({3001}, dtype, "dy");
  const Twin y = both.empty({3001}, dtype);
  const Twin dx = both.normal({3001}, dtype, "dx");
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.gelu_forward(stream, on(x), on(y));
    backend.gelu_backward(stream, on(x), on(dy), on(dx), true);
    backend.gelu_backward(stream, on(x), on(dy), on(dy), false);
  });
  for (const Twin& out : {y, dx, dy}) {
    both.expect_close(out, 2e-6, 2e-6);
  }
}

TEST_P(CudaKernels, BitsDoNotDependOnCuts) {
  const Twin x = both.normal({1000}, dtype, "x");
  const Tensor whole = Tensor::empty_like(x.cuda);
  const Tensor cut = Tensor::empty_like(x.cuda);
  Backend& backend = *both.cuda.backend;
  backend.gelu_forward(both.cuda.stream, x.cuda, whole);
  for_cuts(1000, true, [&](int64_t begin, int64_t numel) {
    backend.gelu_forward(both.cuda.stream, x.cuda.range(begin, numel), cut.range(begin, numel));
  });
  EXPECT_EQ(both.cuda.to_host(whole), both.cuda.to_host(cut));
}

TEST_P(CudaKernels, EmptyTensorsAreNothing) {
  const Twin none = both.empty({0}, dtype);
  const Twin one = both.empty({1}, dtype);
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.fill(stream, on(none), 1.0);
    backend.copy(stream, on(none), on(none));
    backend.scale(stream, on(none), 2.0, on(none), true);
    backend.fill(stream, on(one), 3.0);
  });
  both.expect_same_bits(one);
}

INSTANTIATE_TEST_SUITE_P(Elementwise, CudaKernels, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab
