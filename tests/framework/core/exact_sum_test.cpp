#include "framework/core/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <vector>

#include "framework/core/philox.h"

namespace zerolab {
namespace {

using Words = std::array<int64_t, kExactSumWords>;

Words sum_of(const std::vector<double>& values) {
  Words words = {};
  for (const double value : values) {
    add_exactly(words, value);
  }
  return words;
}

double rounded_sum(Words words) { return round_exact_sum(words); }

/// Non-negative numbers with exponents from -`range` to `range`.
std::vector<double> scattered(int count, int range) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) {
    const auto bits = philox(11, 0, i);
    const int exponent = static_cast<int>(bits[0] % (2 * range + 1)) - range;
    values.push_back(std::ldexp(1.0 + bits[1] * 0x1p-32, exponent));
  }
  return values;
}

TEST(ExactSum, KnownValues) {
  EXPECT_EQ(rounded_sum(sum_of({})), 0.0);
  EXPECT_EQ(rounded_sum(sum_of({0.0})), 0.0);
  EXPECT_EQ(rounded_sum(sum_of({1.5})), 1.5);
  EXPECT_EQ(rounded_sum(sum_of({0.1, 0.2})), 0.1 + 0.2);
  EXPECT_EQ(rounded_sum(sum_of(std::vector<double>(1000, 0.125))), 125.0);
}

TEST(ExactSum, EveryExponentComesBack) {
  for (int exponent = -1022; exponent <= 1023; ++exponent) {
    const double value = std::ldexp(1.0 + 0x1p-52, exponent);
    EXPECT_EQ(rounded_sum(sum_of({value})), value) << exponent;
  }
  EXPECT_EQ(rounded_sum(sum_of({DBL_MAX})), DBL_MAX);
  EXPECT_EQ(rounded_sum(sum_of({DBL_MAX, DBL_MAX})), INFINITY);
}

TEST(ExactSum, LosesNothingBesideLargeNumbers) {
  // Ordinary addition would drop every one of the small ones.
  std::vector<double> values(4096, 0x1p-40);
  values.push_back(0x1p20);
  EXPECT_EQ(rounded_sum(sum_of(values)), 0x1p20 + 0x1p-28);
  // Just above the middle between two doubles: only the last, tiny bit says to round up.
  EXPECT_EQ(rounded_sum(sum_of({1.0, 0x1p-53})), 1.0);
  EXPECT_EQ(rounded_sum(sum_of({1.0, 0x1p-53, 0x1p-900})), 1.0 + 0x1p-52);
}

TEST(ExactSum, OrderAndGroupingDoNotMatter) {
  std::vector<double> values = scattered(1000, 900);
  const double expected = rounded_sum(sum_of(values));
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(rounded_sum(sum_of(values)), expected);
  std::sort(values.begin(), values.end());
  Words merged = {};
  for (int part = 0; part < 7; ++part) {  // as seven ranks would
    Words words = {};
    for (size_t i = part; i < values.size(); i += 7) {
      add_exactly(words, values[i]);
    }
    for (int w = 0; w < kExactSumWords; ++w) {
      merged[w] += words[w];
    }
  }
  EXPECT_EQ(rounded_sum(merged), expected);
}

TEST(ExactSum, AgreesWithLongDouble) {
  const std::vector<double> values = scattered(1000, 4);
  long double sum = 0;  // 64 bits of mantissa hold this sum to far below a double's last bit
  for (const double value : values) {
    sum += value;
  }
  EXPECT_EQ(rounded_sum(sum_of(values)), static_cast<double>(sum));
}

}  // namespace
}  // namespace zerolab
