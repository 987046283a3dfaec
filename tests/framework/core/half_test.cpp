#include "framework/core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace zerolab {
namespace {

constexpr double kInfiniteNumber = std::numeric_limits<double>::infinity();
constexpr double kNanNumber = std::numeric_limits<double>::quiet_NaN();

template <typename T>
void expect_every_element_is_kept() {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float wide = widened(std::bit_cast<T>(static_cast<uint16_t>(bits)));
    const T from_float = rounded<T>(wide);
    const T from_double = rounded<T>(static_cast<double>(wide));
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(widened(from_float)) && std::isnan(widened(from_double))) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint16_t>(from_float), bits);
      EXPECT_EQ(std::bit_cast<uint16_t>(from_double), bits);
    }
  }
}

TEST(Conversion, EveryElementIsKeptThroughFloatAndDouble) {
  expect_every_element_is_kept<BFloat16>();
  expect_every_element_is_kept<Float16>();
}

/// `step`: from 1 to the next element.
template <typename T>
void expect_ties_go_to_even(double step) {
  const auto round = [](auto number) { return widened(rounded<T>(number)); };
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(round(sign * static_cast<float>(1 + step / 2)), sign * 1);
    EXPECT_EQ(round(sign * static_cast<float>(1 + 3 * step / 2)), sign * (1 + 2 * step));
    EXPECT_EQ(round(sign * static_cast<float>(1 + step / 2 + 0x1p-23)), sign * (1 + step));
    EXPECT_EQ(round(sign * static_cast<float>(1 + 3 * step / 2 - 0x1p-23)), sign * (1 + step));
    // As floats both would be ties.
    EXPECT_EQ(round(sign * (1 + step / 2 + 0x1p-40)), sign * (1 + step));
    EXPECT_EQ(round(sign * (1 + 3 * step / 2 - 0x1p-40)), sign * (1 + step));
  }
  EXPECT_EQ(round(kInfiniteNumber), kInfiniteNumber);
  EXPECT_EQ(round(-1e300), -kInfiniteNumber);
  EXPECT_TRUE(std::isnan(round(kNanNumber)));
  EXPECT_TRUE(std::signbit(round(-1e-300)));
}

TEST(Conversion, RoundsToNearestWithTiesToEven) {
  expect_ties_go_to_even<BFloat16>(0x1p-7);
  expect_ties_go_to_even<Float16>(0x1p-10);
}

TEST(Conversion, Float16OverflowsAndHasSubnormals) {
  const auto round = [](float number) { return widened(rounded<Float16>(number)); };
  EXPECT_EQ(round(65504.0F), 65504.0F);
  EXPECT_EQ(round(65519.0F), 65504.0F);
  EXPECT_EQ(round(65520.0F), kInfiniteNumber);
  EXPECT_EQ(round(-1e6F), -kInfiniteNumber);
  EXPECT_EQ(round(0x1p-24F), 0x1p-24F);  // the smallest
  EXPECT_EQ(round(0x1p-25F), 0.0F);
  EXPECT_EQ(round(0x1.8p-24F), 0x1p-23F);
}

TEST(Conversion, BFloat16HasTheRangeOfFloat) {
  const auto round = [](float number) { return widened(rounded<BFloat16>(number)); };
  EXPECT_EQ(round(1e38F), 0x1.2cp126F);
  EXPECT_EQ(round(std::numeric_limits<float>::max()), kInfiniteNumber);  // nearer to 2^128
  EXPECT_EQ(round(0x1p-133F), 0x1p-133F);                                // the smallest
  // A NaN whose payload lies in the lower half alone.
  EXPECT_TRUE(std::isnan(round(std::bit_cast<float>(0x7F800001U))));
}

}  // namespace
}  // namespace zerolab
