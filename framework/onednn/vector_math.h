#pragma once

#include <limits>

#include "framework/onednn/vector.h"

namespace zerolab::onednn {

/// e^x within 2 units in the last place, without branches: 2^n times a polynomial on [-ln2 / 2, ln2
/// / 2]. Below -86.6 it is 0 (the true value is below 2.5e-38), above 88.7 infinite; a NaN stays
/// one.
inline Vector exp(Vector x) {
  constexpr float kLowest = -86.6F;
  constexpr float kHighest = 88.722839F;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Vector zero = {};
  const Vector low = x < kLowest ? zero + kLowest : x;
  const Vector clamped = low > kHighest ? zero + kHighest : low;
  // Adding 1.5 * 2^23 rounds to an integer, which the low bits of the sum then hold.
  constexpr float kRound = 12582912.0F;
  const Vector shifted = multiply_add(clamped, broadcast(1.44269504F), broadcast(kRound));
  const Vector n = shifted - kRound;
  Vector r = multiply_add(n, broadcast(-0.693359375F), clamped);  // ln 2 in two parts
  r = multiply_add(n, broadcast(2.12194440e-4F), r);
  Vector p = broadcast(1.9875691500e-4F);
  p = multiply_add(p, r, broadcast(1.3981999507e-3F));
  p = multiply_add(p, r, broadcast(8.3334519073e-3F));
  p = multiply_add(p, r, broadcast(4.1665795894e-2F));
  p = multiply_add(p, r, broadcast(1.6666665459e-1F));
  p = multiply_add(p, r, broadcast(5.0000001201e-1F));
  p = multiply_add(p, r * r, r) + 1.0F;
  // 2^(n - 1), then twice that: 2^128 has no float.
  constexpr int32_t kBias = 127 - 1 - 0x4B400000;
  IntVector bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + kBias) << 23;
  Vector power;
  std::memcpy(&power, &bits, sizeof(power));
  Vector result = p * power * 2.0F;
  result = x < kLowest ? zero : result;
  return x > kHighest ? zero + kInfinity : result;
}

/// 1 / (1 + e^-x).
inline Vector sigmoid(Vector x) { return 1.0F / (1.0F + exp(-x)); }

}  // namespace zerolab::onednn
