#pragma once

#include <cstdint>

namespace zerolab::data {

/// A seeded shuffle of [0, size) that holds no table: element i is computed when it is asked for,
/// so any rank can find any sample of any epoch at no cost in memory, and a resume needs no state.
///
/// A Feistel network permutes the next power of four; a result outside [0, size) goes through it
/// again until it falls inside ("cycle walking": fewer than four passes on average).
class Permutation {
 public:
  /// Throws `Error` unless size >= 1.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);

  /// Where `index` in [0, size) goes; a bijection on [0, size).
  int64_t operator()(int64_t index) const;

 private:
  uint64_t size_;
  uint64_t key_;
  int half_bits_;
};

}  // namespace zerolab::data
