#include <gtest/gtest.h>

#include <vector>

#include "framework/core/exact_sum.h"
#include "tests/framework/onednn/half_comparison.h"
#include "tests/framework/onednn/plain_comparison.h"

namespace zerolab::test::onednn {
namespace {

TEST_F(Onednn, SumsArePlainsToTheBitHoweverTheyAreCut) {
  constexpr int64_t kSize = 100003;
  for (const bool cut : {false, true}) {
    compare(
        [&](Rank& rank) {
          const Tensor a = rank.random(Shape{kSize}, 1);
          const Tensor b = rank.random(Shape{kSize}, 2);
          const Tensor sum = rank.random(Shape{kSize}, 3);
          const Tensor mean = rank.random(Shape{kSize}, 4);
          const Tensor gelu = rank.random(Shape{kSize}, 5);
          for_cuts(kSize, cut, [&](int64_t begin, int64_t n) {
            rank.backend->add(rank.stream(), a.range(begin, n), b.range(begin, n),
                              sum.range(begin, n));
            rank.backend->accumulate(rank.stream(), a.range(begin, n), sum.range(begin, n));
            const auto bytes_of = [&](const Tensor& tensor) {
              return tensor.range(begin, n).raw();
            };
            const std::byte* const sources[] = {bytes_of(mean), bytes_of(a), bytes_of(b)};
            rank.backend->reduce_in_order(sources, DType::kFloat32, 3.0,
                                          {bytes_of(mean), static_cast<size_t>(n) * sizeof(float)});
          });
          return Outputs{sum.to_host<float>(), mean.to_host<float>()};
        },
        0.0);
  }
}

std::vector<int64_t> statistics_of(Rank& rank, const Tensor& gradient, int64_t block,
                                   const std::vector<int64_t>& cuts) {
  const Tensor statistics = Tensor::zeros(rank.context, Shape{kStatisticsWords}, DType::kInt64);
  auto* words = statistics.data<int64_t>();
  words[kFirstNonFiniteWord] = kAllFinite;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    rank.backend->gradient_statistics(rank.stream(), gradient.range(cuts[i], cuts[i + 1] - cuts[i]),
                                      block, 1000 + cuts[i], statistics);
  }
  normalize_exact_sum({words, kExactSumWords});
  return statistics.to_host<int64_t>();
}

TEST_F(Onednn, GradientStatisticsArePlainsToTheBit) {
  constexpr int64_t kSize = 128 * 1500 + 77;
  for (const int64_t block : {1L, 7L, 128L}) {
    for (const bool finite : {true, false}) {
      SCOPED_TRACE(testing::Message() << block << " " << finite);
      const auto statistics = [&](std::unique_ptr<Backend> backend, int threads,
                                  const std::vector<int64_t>& cuts) {
        Rank rank(std::move(backend), threads);
        const Tensor gradient = rank.random(Shape{kSize}, 1);
        if (!finite) {
          gradient.data<float>()[150001] = kFloatInfinity;
          gradient.data<float>()[90005] = std::nanf("");
          gradient.data<float>()[90006] = kFloatInfinity;
        }
        return statistics_of(rank, gradient, block, cuts);
      };
      const auto expected = statistics(make_plain_backend(), 1, {0, kSize});
      EXPECT_EQ(expected[kFirstNonFiniteWord], finite ? kAllFinite : 91005);
      EXPECT_EQ(statistics(make_onednn_backend(), 2, {0, kSize}), expected);
      EXPECT_EQ(statistics(make_onednn_backend(), 1, {0, kSize}), expected);
      EXPECT_EQ(statistics(make_onednn_backend(), 2, {0, 7 * 128, 7 * 128 * 91, kSize}), expected);
    }
  }
}

TEST_P(OnednnHalf, GradientStatistics) {
  constexpr int64_t kSize = 128 * 500 + 77;
  for (const int64_t block : {1L, 7L, 128L}) {
    for (const bool finite : {true, false}) {
      SCOPED_TRACE(testing::Message() << block << " " << finite);
      const auto statistics = [&](DType type, int threads) {
        TypedRank run(half(), type, threads);
        std::vector<float> values = random_numbers(kSize, 1);
        if (!finite) {
          values[50001] = kFloatInfinity;
          values[20005] = -kFloatInfinity;
          values[20006] = std::nanf("");
        }
        for (float& value : values) {
          value = rounded(half(), value);
        }
        const Tensor gradient = tensor_of(run.rank, Shape{kSize}, type, values);
        const Tensor words =
            Tensor::zeros(run.rank.context, Shape{kStatisticsWords}, DType::kInt64);
        words.data<int64_t>()[kFirstNonFiniteWord] = kAllFinite;
        run.backend().gradient_statistics(run.stream(), gradient, block, 1000, words);
        normalize_exact_sum({words.data<int64_t>(), kExactSumWords});
        return words.to_host<int64_t>();
      };
      const auto expected = statistics(kFloat32, 1);
      EXPECT_EQ(expected[kFirstNonFiniteWord], finite ? kAllFinite : 21005);
      EXPECT_EQ(statistics(half(), 1), expected);
      EXPECT_EQ(statistics(half(), 2), expected);
    }
  }
}

TEST_P(OnednnHalf, ReductionsAddInFp32InOrderAndRoundOnce) {
  constexpr int64_t kSize = 1003;
  compare([&](TypedRank& run) {
    const Tensor mean = run.random(Shape{kSize}, 1);
    const Tensor b = run.random(Shape{kSize}, 2, 100.0F);
    const Tensor c = run.random(Shape{kSize}, 3);
    const std::byte* const sources[] = {mean.raw(), b.raw(), c.raw()};
    run.backend().reduce_in_order(sources, run.type, 3.0,
                                  {mean.raw(), static_cast<size_t>(mean.bytes())});
    return std::vector<Tensor>{mean};
  });
}

}  // namespace
}  // namespace zerolab::test::onednn
