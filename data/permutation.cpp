#include "data/permutation.h"

#include <bit>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/philox.h"

namespace zerolab::data {

namespace {

// Keeps the shuffle's random numbers apart from others that the same seed keys.
constexpr uint64_t kShuffleDomain = 0x73687566666C65;  // "shuffle"
constexpr uint64_t kNumRounds = 6;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)) {
  require(size >= 1, "data", "a permutation of nothing; got size {}, expected at least 1", size);
  const auto words = philox(seed, kShuffleDomain, epoch);
  key_ = (uint64_t{words[1]} << 32) | words[0];
  half_bits_ = (std::bit_width(size_ - 1) + 1) / 2;
}

int64_t Permutation::operator()(int64_t index) const {
  const uint64_t half_mask = (uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<uint64_t>(index);
  do {
    uint64_t left = value >> half_bits_;
    uint64_t right = value & half_mask;
    for (uint64_t round = 0; round < kNumRounds; ++round) {
      left ^= philox(key_, round, right)[0] & half_mask;
      std::swap(left, right);
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace zerolab::data
