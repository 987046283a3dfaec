#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

namespace zerolab::cuda_sim {

inline constexpr int kWarpSize = 32;

/// A stream of random numbers (xorshift64*), cheap enough for every warp and barrier.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x5851F42D4C957F2Du) {}
  /// Of [0, n).
  uint32_t below(uint32_t n) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>(((state_ * 0x2545F4914F6CDD1Du) >> 32) * n >> 32);
  }

 private:
  uint64_t state_;
};

/// Runs all threads of all blocks of a launch in the calling host thread, the blocks one after
/// another in a random order. Between two barriers a block's warps run one after another, and a
/// warp's lanes too between two shuffles, each time in a new order. Throws what a thread threw,
/// with the block and thread before it, or says which threads are missing at a barrier or shuffle.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body,
              Random& random);

/// --- for device functions, in a kernel's thread ---
/// Returns when all live threads of the block have called it.
void barrier(const std::source_location& place);
/// Copies `bytes` from lane `source`'s value to `result`, when all live lanes of `mask` have called
/// it.
void shuffle(unsigned mask, int source, const void* value, void* result, size_t bytes,
             const std::source_location& place);
/// The calling thread's place in its warp.
int lane();

}  // namespace zerolab::cuda_sim
