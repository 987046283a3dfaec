#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace zerolab::onednn {

/// Sixteen floats; the compiler splits them where registers are smaller. Every lane is computed
/// alike, so an element's bits do not depend on whether it fell into a whole vector or into a
/// remainder.
inline constexpr int kLanes = 16;
using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntVector = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

inline constexpr IntVector kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline Vector broadcast(float value) { return Vector{} + value; }

inline Vector load(const float* source) {
  Vector result;
  std::memcpy(&result, source, sizeof(result));
  return result;
}

inline void store(float* out, Vector value) { std::memcpy(out, &value, sizeof(value)); }

// What the vector syntax of the compiler has no word for; the general form gives the same bits, but
// for the one rounding that a fused multiply-add spares.
#ifdef __AVX512F__
inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
inline Vector square_root(Vector a) { return _mm512_maskz_sqrt_ps(0xFFFF, a); }
inline Vector load_first(const float* source, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), source);
}
inline void store_first(float* out, Vector value, int64_t count) {
  _mm512_mask_storeu_ps(out, static_cast<__mmask16>((1U << count) - 1), value);
}
#else
inline Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }
inline Vector square_root(Vector a) {
  for (int i = 0; i < kLanes; ++i) {
    a[i] = std::sqrt(a[i]);
  }
  return a;
}
inline Vector load_first(const float* source, int64_t count) {
  Vector result = {};
  std::memcpy(&result, source, count * sizeof(float));
  return result;
}
inline void store_first(float* out, Vector value, int64_t count) {
  std::memcpy(out, &value, count * sizeof(float));
}
#endif

inline Vector maximum(Vector a, Vector b) { return a > b ? a : b; }

/// The lanes of a whole vector, or the first `count` of one: what a loop's body sees of its
/// position.
struct AllLanes {
  Vector load(const float* source) const { return onednn::load(source); }
  void store(float* out, Vector value) const { onednn::store(out, value); }
  Vector keep(Vector value, Vector /*otherwise*/ = Vector{}) const { return value; }
};
struct FirstLanes {
  int64_t count;

  /// Lanes beyond the count are 0.
  Vector load(const float* source) const { return load_first(source, count); }
  void store(float* out, Vector value) const { store_first(out, value, count); }
  Vector keep(Vector value, Vector otherwise = Vector{}) const {
    return kLaneIndex < static_cast<int32_t>(count) ? value : otherwise;
  }
};

/// Calls `body(i, lanes)` for each vector that starts at element i of [begin, end).
template <typename Body>
void for_vectors(int64_t begin, int64_t end, Body&& body) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    body(i, AllLanes{});
  }
  if (i < end) {
    body(i, FirstLanes{end - i});
  }
}

/// The sum of the lanes, in a fixed tree.
inline float sum_of(Vector value) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      value[i] += value[i + half];
    }
  }
  return value[0];
}

/// The largest lane; NaN lanes may be passed over.
inline float largest_of(Vector value) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      value[i] = value[i] > value[i + half] ? value[i] : value[i + half];
    }
  }
  return value[0];
}

/// Turns 16 rows of 16 lanes into their columns, by zipping rows i and i + 8 four times.
inline void transpose(Vector (&rows)[kLanes]) {
  constexpr IntVector kLow = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr IntVector kHigh = kLow + 8;
  for (int round = 0; round < 4; ++round) {
    Vector zipped[kLanes];
    for (int i = 0; i < kLanes / 2; ++i) {
      zipped[2 * i] = __builtin_shuffle(rows[i], rows[i + 8], kLow);
      zipped[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + 8], kHigh);
    }
    std::memcpy(rows, zipped, sizeof(zipped));
  }
}

}  // namespace zerolab::onednn
