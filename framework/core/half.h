#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace zerolab {

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction; the largest is 65504. The compiler's own
/// type: conversions round to nearest, ties to even.
using Float16 = _Float16;

/// The upper half of a float: its exponent, and 7 bits of fraction. For storage: arithmetic is done
/// in float.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  /// Rounds to nearest, ties to even; a NaN stays one.
  explicit BFloat16(float value) {
    const auto wide = std::bit_cast<uint32_t>(value);
    bits = std::isnan(value) ? static_cast<uint16_t>((wide >> 16) | 0x40U)
                             : static_cast<uint16_t>((wide + 0x7FFFU + ((wide >> 16) & 1U)) >> 16);
  }
  /// Exact.
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// What numbers of these types are computed in when they meet: fp32 for 16-bit ones, fp64 where one
/// is fp64.
template <typename... T>
using Compute = std::common_type_t<std::conditional_t<sizeof(T) == 2, float, T>...>;

/// An element as a number to compute with; exact.
template <typename T>
Compute<T> widened(T element) {
  return static_cast<Compute<T>>(element);
}

/// A number as an element, rounded once: to nearest, ties to even.
template <typename T, typename Number>
T rounded(Number number) {
  if constexpr (std::is_same_v<T, BFloat16> && std::is_same_v<Number, double>) {
    // Rounding to float and then again could go wrong at a tie. An inexact float with an odd last
    // bit is no tie of fewer bits (Boldo & Melquiond, "Emulation of FMA and Correctly Rounded
    // Sums", 2008).
    const auto nearest = static_cast<float>(number);
    auto bits = std::bit_cast<uint32_t>(nearest);
    if (nearest != number && !std::isnan(number)) {
      bits = (std::abs(nearest) > std::abs(number) ? bits - 1 : bits) | 1U;
    }
    return BFloat16(std::bit_cast<float>(bits));
  } else {
    return static_cast<T>(number);
  }
}

}  // namespace zerolab
