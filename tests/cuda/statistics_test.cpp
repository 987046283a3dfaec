#include <limits>

#include "framework/core/exact_sum.h"
#include "tests/cuda/both.h"

namespace zerolab {
namespace {

class CudaStatistics : public CudaKernels {
 protected:
  Twin statistics() {
    std::vector<int64_t> words(kStatisticsWords);
    words[kFirstNonFiniteWord] = kAllFinite;
    return both.of(Shape{kStatisticsWords}, words);
  }
  /// Sums are equal when their digits are, once carries have moved up.
  void expect_same(const Twin& words) {
    auto got = both.computed(words).to_host<int64_t>();
    auto expected = words.plain.to_host<int64_t>();
    normalize_exact_sum(got);
    normalize_exact_sum(expected);
    EXPECT_EQ(got, expected);
  }
};

TEST_P(CudaStatistics, AddsBlocksExactly) {
  // Of very different sizes, so that digits far apart are added in one warp.
  std::vector<float> values;
  for (int i = 0; i < 40001; ++i) {
    values.push_back(std::ldexp(static_cast<float>(i % 1013) - 500.0F, i / 128 % 60 - 40));
  }
  const Twin wide = both.of(Shape{std::ssize(values)}, values);
  const Twin gradient = both.empty({std::ssize(values)}, dtype);
  const Twin words = statistics();
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.copy(stream, on(wide), on(gradient));
    for (const auto& [begin, numel, block] :
         {std::tuple<int64_t, int64_t, int64_t>{0, 40001, 128}, {128, 1000, 128}, {3, 500, 1}}) {
      backend.gradient_statistics(stream, on(gradient.range(begin, numel)), block, begin,
                                  on(words));
    }
  });
  expect_same(words);
}

TEST_P(CudaStatistics, ZerosAreNothing) {
  const Twin gradient = both.of(Shape{300}, std::vector<float>(300));
  const Twin words = statistics();
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.gradient_statistics(stream, on(gradient), 128, 0, on(words));
  });
  expect_same(words);
}

TEST_P(CudaStatistics, KeepsTheFirstNonFiniteElementAndItsKind) {
  std::vector<float> values(50000, 1.0F);
  values[2 * 128 + 5] = std::numeric_limits<float>::infinity();
  values[2 * 128 + 9] = std::numeric_limits<float>::quiet_NaN();
  values[47000] = std::numeric_limits<float>::quiet_NaN();
  const Twin wide = both.of(Shape{std::ssize(values)}, values);
  const Twin gradient = both.empty({std::ssize(values)}, dtype);
  const Twin words = statistics();
  both.run([&](Backend& backend, Stream& stream, auto on) {
    backend.copy(stream, on(wide), on(gradient));
    backend.gradient_statistics(stream, on(gradient.range(25600, 24400)), 128, 25600, on(words));
    const Tensor later = on(words);
    backend.gradient_statistics(stream, on(gradient.range(0, 25600)), 128, 0, later);
    backend.gradient_statistics(stream, on(gradient.range(25600, 24400)), 128, 25600, later);
  });
  expect_same(words);
  const auto got = both.computed(words).to_host<int64_t>();
  EXPECT_EQ(got[kFirstNonFiniteWord], 2 * 128 + 5);
  EXPECT_EQ(got[kNonFiniteKindWord], kInfinity);
}

INSTANTIATE_TEST_SUITE_P(Statistics, CudaStatistics, all_cases(), name_of_case);

}  // namespace
}  // namespace zerolab
