#include "cuda_sim/block.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda_sim/test_device.h"
#include "framework/cuda/launch.h"

namespace zerolab::cuda_sim {
namespace {

using cuda::dynamic_shared;
using cuda::launch;

constexpr unsigned kFullMask = 0xFFFFFFFFu;
constexpr int kSeeds = 50;

/// out[block] = the sum of its threads' elements: what a kernel's sums look like. Without the
/// barrier thread 0 reads what other warps may not have written.
template <bool kBarrier>
__global__ void sum_of_block(const float* x, float* out) {
  auto* warp_sums = dynamic_shared<float>();
  float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(kFullMask, sum, offset);
  }
  if (threadIdx.x % 32 == 0) {
    warp_sums[threadIdx.x / 32] = sum;
  }
  if (kBarrier) {
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
      sum += warp_sums[warp];
    }
    out[blockIdx.x] = sum;
  }
}

/// The results of two blocks, under several seeds.
template <bool kBarrier>
std::set<std::vector<uint32_t>> sums_under_seeds() {
  std::vector<float> x(512);
  std::iota(x.begin(), x.end(), 1.0F);
  std::set<std::vector<uint32_t>> found;
  for (int seed = 0; seed < kSeeds; ++seed) {
    reset(seed);
    const DeviceArray<float> device_x(x);
    const DeviceArray<float> out(2);
    launch(sum_of_block<kBarrier>, 2, 256, 32, nullptr, device_x.data(), out.data());
    const std::vector<float> sums = out.values();
    found.insert({__float_as_uint(sums[0]), __float_as_uint(sums[1])});
  }
  return found;
}

TEST(CudaSimBlock, BarriersAndShufflesGiveOneResultUnderEverySeed) {
  const std::set<std::vector<uint32_t>> expected = {
      {__float_as_uint(32896.0F), __float_as_uint(98432.0F)}};
  EXPECT_EQ(sums_under_seeds<true>(), expected);
}

TEST(CudaSimBlock, FindsAMissingBarrier) { EXPECT_GT(sums_under_seeds<false>().size(), 1u); }

__global__ void shift_through_shared(int* out, int rounds) {
  __shared__ int values[96];
  const int thread = static_cast<int>(threadIdx.x + blockDim.x * threadIdx.y);
  int value = thread;
  for (int round = 0; round < rounds; ++round) {
    values[thread] = value;
    __syncthreads();
    value = values[(thread + 1) % 96];
    __syncthreads();
  }
  out[thread] = value;
}

TEST(CudaSimBlock, ManyBarriersInALoop) {
  reset(3);
  const DeviceArray<int> out(96);
  launch(shift_through_shared, 1, dim3(8, 12), 0, nullptr, out.data(), 100);
  EXPECT_EQ(out.values()[0], 100 % 96);
  EXPECT_EQ(out.values()[95], 99 % 96);
}

__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(kFullMask, lane, 3);
  out[32 + lane] = __shfl_down_sync(kFullMask, lane, 4);
  out[64 + lane] = __shfl_up_sync(kFullMask, lane, 4);
  out[96 + lane] = __shfl_xor_sync(kFullMask, lane, 5, 8);
  out[128 + lane] = __shfl_sync(kFullMask, lane, 1, 8);
}

TEST(CudaSimBlock, ShufflesReadTheLanesThatCudaReads) {
  reset(4);
  const DeviceArray<int> device_out(160);
  launch(shuffles, 1, 32, 0, nullptr, device_out.data());
  const std::vector<int> out = device_out.values();
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], 3);
    EXPECT_EQ(out[32 + lane], lane < 28 ? lane + 4 : lane);
    EXPECT_EQ(out[64 + lane], lane < 4 ? lane : lane - 4);
    EXPECT_EQ(out[96 + lane], lane ^ 5);
    EXPECT_EQ(out[128 + lane], lane / 8 * 8 + 1);
  }
}

__global__ void count_threads(unsigned long long* out) {
  if (threadIdx.x < 100) {
    return;  // an ended thread is missed by no barrier
  }
  __syncthreads();
  atomicAdd(out, 1ull);
}

TEST(CudaSimBlock, EndedThreadsAreNotAwaited) {
  reset(5);
  const DeviceArray<unsigned long long> out({0});
  launch(count_threads, dim3(3, 2, 2), 128, 0, nullptr, out.data());
  EXPECT_EQ(out.values()[0], 12u * 28);
}

/// Launches a kernel that fails and gives the device's error text.
std::string text_of_failure(unsigned threads, size_t shared_bytes, void (*kernel)()) {
  reset(6);
  launch(kernel, 1, threads, shared_bytes, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  const std::string text = last_error();
  reset();
  return text;
}

__global__ void two_barriers() {
  if (threadIdx.x == 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(CudaSimBlock, NamesWhoIsAtAnotherBarrier) {
  const std::string text = text_of_failure(64, 0, two_barriers);
  EXPECT_NE(text.find("thread (40, 0, 0) at "), std::string::npos) << text;
  EXPECT_NE(text.find("block_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find("two_barriers"), std::string::npos) << text;
}

__global__ void barrier_against_shuffle() {
  if (threadIdx.x == 7) {
    __syncthreads();
  } else {
    __shfl_xor_sync(kFullMask, 1, 1);
  }
}

TEST(CudaSimBlock, NamesTheLaneMissingInAShuffle) {
  const std::string text = text_of_failure(32, 0, barrier_against_shuffle);
  EXPECT_NE(text.find("but thread (7, 0, 0) waits at "), std::string::npos) << text;
}

__global__ void shuffle_in_a_part_of_a_warp() { __shfl_xor_sync(kFullMask, 1, 16); }

TEST(CudaSimBlock, AShuffleFromALaneThatIsNotThereFails) {
  const std::string text = text_of_failure(16, 0, shuffle_in_a_part_of_a_warp);
  EXPECT_NE(text.find("which it reads is not there"), std::string::npos) << text;
}

__global__ void throwing() {
  __syncthreads();
  if (threadIdx.x == 33) {
    throw std::runtime_error("out of range");
  }
  __syncthreads();
}

TEST(CudaSimBlock, AnExceptionIsTheDevicesError) {
  EXPECT_EQ(text_of_failure(64, 0, throwing), "block (0, 0, 0), thread (33, 0, 0): out of range");
}

__global__ void writing_beyond_shared() { dynamic_shared<float>()[8] = 0.0F; }

TEST(CudaSimBlock, FindsWritesBeyondDynamicSharedMemory) {
  const std::string text = text_of_failure(1, 32, writing_beyond_shared);
  EXPECT_NE(text.find("beyond its dynamic shared memory of 32 bytes"), std::string::npos) << text;
}

}  // namespace
}  // namespace zerolab::cuda_sim
