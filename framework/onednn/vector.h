#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "framework/core/half.h"

// AVX-512 as all processors for training have it, with its 16-bit parts.
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define ZEROLAB_AVX512
#include <immintrin.h>
#endif

namespace zerolab::onednn {

/// Sixteen floats; the compiler splits them where registers are smaller. Every lane is computed
/// alike, so an element's bits do not depend on whether it fell into a whole vector or into a
/// remainder.
inline constexpr int kLanes = 16;
using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using IntVector = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
using WordVector = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
/// Sixteen bf16 or fp16 elements as they lie in memory.
using HalfBits = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t))));

inline constexpr IntVector kLaneIndex = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline Vector broadcast(float value) { return Vector{} + value; }

inline Vector load(const float* source) {
  Vector result;
  std::memcpy(&result, source, sizeof(result));
  return result;
}

inline void store(float* out, Vector value) { std::memcpy(out, &value, sizeof(value)); }

// Operations for which the compiler's vector syntax has no word. The general form gives the same
// bits, but for the one rounding that a fused multiply-add spares.
#ifdef ZEROLAB_AVX512
inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
inline Vector square_root(Vector a) { return _mm512_maskz_sqrt_ps(0xFFFF, a); }
inline Vector load_first(const float* source, int64_t count) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), source);
}
inline void store_first(float* out, Vector value, int64_t count) {
  _mm512_mask_storeu_ps(out, static_cast<__mmask16>((1U << count) - 1), value);
}
inline HalfBits load_first_bits(const void* source, int64_t count) {
  return std::bit_cast<HalfBits>(
      _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1U << count) - 1), source));
}
inline void store_first_bits(void* out, HalfBits bits, int64_t count) {
  _mm256_mask_storeu_epi16(out, static_cast<__mmask16>((1U << count) - 1),
                           std::bit_cast<__m256i>(bits));
}
inline WordVector words_of(HalfBits bits) {
  return std::bit_cast<WordVector>(
      _mm512_maskz_cvtepu16_epi32(0xFFFF, std::bit_cast<__m256i>(bits)));
}
inline HalfBits lower_halves_of(WordVector words) {
  return std::bit_cast<HalfBits>(
      _mm512_maskz_cvtepi32_epi16(0xFFFF, std::bit_cast<__m512i>(words)));
}
inline Vector widen(HalfBits bits, Float16 /*type*/) {
  return _mm512_maskz_cvtph_ps(0xFFFF, std::bit_cast<__m256i>(bits));
}
inline HalfBits round_to(Float16 /*type*/, Vector value) {
  return std::bit_cast<HalfBits>(_mm512_maskz_cvtps_ph(0xFFFF, value, _MM_FROUND_TO_NEAREST_INT));
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
inline HalfBits load_first_bits(const void* source, int64_t count) {
  HalfBits bits = {};
  std::memcpy(&bits, source, count * sizeof(uint16_t));
  return bits;
}
inline void store_first_bits(void* out, HalfBits bits, int64_t count) {
  std::memcpy(out, &bits, count * sizeof(uint16_t));
}
inline WordVector words_of(HalfBits bits) { return __builtin_convertvector(bits, WordVector); }
inline HalfBits lower_halves_of(WordVector words) {
  return __builtin_convertvector(words, HalfBits);
}
inline Vector widen(HalfBits bits, Float16 /*type*/) {
  Vector result;
  for (int i = 0; i < kLanes; ++i) {
    result[i] = static_cast<float>(std::bit_cast<Float16>(static_cast<uint16_t>(bits[i])));
  }
  return result;
}
inline HalfBits round_to(Float16 /*type*/, Vector value) {
  HalfBits bits;
  for (int i = 0; i < kLanes; ++i) {
    bits[i] = std::bit_cast<uint16_t>(static_cast<Float16>(value[i]));
  }
  return bits;
}
#endif

inline Vector widen(HalfBits bits, BFloat16 /*type*/) {
  return std::bit_cast<Vector>(words_of(bits) << 16);
}
/// As core/half.h does.
inline HalfBits round_to_bf16(Vector value) {
  const auto wide = std::bit_cast<WordVector>(value);
  const WordVector upper = wide >> 16;
  const WordVector rounded = (wide + 0x7FFF + (upper & 1)) >> 16;
  return lower_halves_of(value == value ? rounded : upper | 0x40);
}
#ifdef __AVX512BF16__
inline HalfBits round_to(BFloat16 /*type*/, Vector value) {
  // The processor's conversion has the same bits, but turns subnormals into 0.
  constexpr int kSubnormal = 0x20;
  if (_mm512_fpclass_ps_mask(value, kSubnormal) != 0) [[unlikely]] {
    return round_to_bf16(value);
  }
  return std::bit_cast<HalfBits>(_mm512_cvtneps_pbh(value));
}
#else
inline HalfBits round_to(BFloat16 /*type*/, Vector value) { return round_to_bf16(value); }
#endif

/// The same for elements of bf16 and fp16: as floats, and rounded to nearest, ties to even.
template <typename T>
Vector load(const T* source) {
  HalfBits bits;
  std::memcpy(&bits, source, sizeof(bits));
  return widen(bits, T{});
}
template <typename T>
void store(T* out, Vector value) {
  const HalfBits bits = round_to(T{}, value);
  std::memcpy(static_cast<void*>(out), &bits, sizeof(bits));
}
template <typename T>
Vector load_first(const T* source, int64_t count) {
  return widen(load_first_bits(source, count), T{});
}
template <typename T>
void store_first(T* out, Vector value, int64_t count) {
  store_first_bits(out, round_to(T{}, value), count);
}

inline Vector maximum(Vector a, Vector b) { return a > b ? a : b; }

/// The lanes of a whole vector, or the first `count` of one: what a loop's body sees of its
/// position.
struct AllLanes {
  template <typename T>
  Vector load(const T* source) const {
    return onednn::load(source);
  }
  template <typename T>
  void store(T* out, Vector value) const {
    onednn::store(out, value);
  }
  Vector keep(Vector value, Vector /*otherwise*/ = Vector{}) const { return value; }
};
struct FirstLanes {
  int64_t count;

  /// Lanes beyond the count are 0.
  template <typename T>
  Vector load(const T* source) const {
    return load_first(source, count);
  }
  template <typename T>
  void store(T* out, Vector value) const {
    store_first(out, value, count);
  }
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
