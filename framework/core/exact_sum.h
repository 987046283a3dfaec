#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace zerolab {

/// A sum of non-negative doubles without any rounding: a fixed-point number over fp64's whole
/// range, held as 32-bit digits in 64-bit words so that carries can wait. Addition is exact, hence
/// associative: partial sums may be made anywhere, in any order, by any number of ranks, and merged
/// by adding words. (Kulisch's accumulator; "Computer Arithmetic and Validity", 2008.)
inline constexpr int kExactSumWords = 70;

/// Words of gradient statistics: the exact sum, then the first non-finite element's index and kind.
inline constexpr int kFirstNonFiniteWord = kExactSumWords;
inline constexpr int kNonFiniteKindWord = kExactSumWords + 1;
inline constexpr int kStatisticsWords = kExactSumWords + 2;
inline constexpr int64_t kAllFinite = std::numeric_limits<int64_t>::max();
enum NonFiniteKind : int64_t { kNone = 0, kInfinity = 1, kNaN = 2 };

/// words += value; value is finite and >= 0. A word takes 2^31 additions before
/// `normalize_exact_sum` is due.
inline void add_exactly(std::span<int64_t> words, double value) {
  // value = mantissa * 2^(exponent - 1075), with an integer mantissa; bit 0 of the sum is 2^-1126.
  const auto bits = std::bit_cast<uint64_t>(value);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  const uint64_t mantissa = exponent == 0 ? fraction : fraction | uint64_t{1} << 52;
  const int position = std::max(exponent, 1) - 1075 + 1126;
  const int word = position / 32;
  const int shift = position % 32;
  const auto wide = static_cast<unsigned __int128>(mantissa) << shift;
  words[word] += static_cast<int64_t>(static_cast<uint64_t>(wide) & 0xFFFFFFFFU);
  words[word + 1] += static_cast<int64_t>(static_cast<uint64_t>(wide >> 32) & 0xFFFFFFFFU);
  words[word + 2] += static_cast<int64_t>(static_cast<uint64_t>(wide >> 64));
}

/// Moves carries upwards, so that every word is a 32-bit digit again; the value stays.
inline void normalize_exact_sum(std::span<int64_t> words) {
  int64_t carry = 0;
  for (int i = 0; i < kExactSumWords; ++i) {
    const int64_t sum = words[i] + carry;
    words[i] = sum & 0xFFFFFFFF;
    carry = sum >> 32;
  }
}

/// The sum, rounded once to the nearest double (ties by a sticky bit). Normalises.
inline double round_exact_sum(std::span<int64_t> words) {
  normalize_exact_sum(words);
  int top = kExactSumWords - 1;
  while (top > 0 && words[top] == 0) {
    --top;
  }
  if (top < 2) {
    return 0.0;  // below 2^-1126 + 96 bits: smaller than any normal double
  }
  // 96 bits from the top digit down; what lies below them only matters as "not zero".
  auto head = static_cast<unsigned __int128>(words[top]) << 64 |
              static_cast<unsigned __int128>(words[top - 1]) << 32 |
              static_cast<unsigned __int128>(words[top - 2]);
  bool sticky = false;
  for (int i = top - 3; i >= 0; --i) {
    sticky = sticky || words[i] != 0;
  }
  // The conversion of a 128-bit integer rounds once to nearest-even; the sticky bit breaks false
  // ties.
  return std::ldexp(static_cast<double>(head << 1 | static_cast<unsigned>(sticky)),
                    (top - 2) * 32 - 1126 - 1);
}

/// Adds one block of gradients to `words` (`kStatisticsWords`): `sum`, of the squares of `block`,
/// or where that is not finite, its first element that is not. Element i of the block is `index` +
/// i elsewhere; the smallest index is kept.
inline void add_block(std::span<int64_t> words, std::span<const float> block, int64_t index,
                      double sum) {
  if (std::isfinite(sum)) {  // squares of fp32 cannot overflow fp64
    add_exactly(words.first(kExactSumWords), sum);
    return;
  }
  const auto bad =
      std::find_if(block.begin(), block.end(), [](float g) { return !std::isfinite(g); });
  index += bad - block.begin();
  if (index < words[kFirstNonFiniteWord]) {
    words[kFirstNonFiniteWord] = index;
    words[kNonFiniteKindWord] = std::isnan(*bad) ? kNaN : kInfinity;
  }
}

}  // namespace zerolab
