#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

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

}  // namespace zerolab
