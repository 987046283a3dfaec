#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "framework/cuda/cuda_stream.h"
#include "framework/cuda/launch.h"

namespace zerolab::cuda {
namespace {

__global__ void sum_of_block(const float* x, float* out) {
  __shared__ float warp_sums[32];
  float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
  }
  if (threadIdx.x % 32 == 0) {
    warp_sums[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) {
      sum += warp_sums[warp];
    }
    out[blockIdx.x] = sum;
  }
}

TEST(CudaSimBlock, SumsWithShufflesAndBarriers) {
  cuda_sim::reset(1);
  std::vector<float> x(512);
  std::iota(x.begin(), x.end(), 1.0f);
  float *device_x = nullptr, *device_out = nullptr;
  check(cudaMalloc(&device_x, 2048), "malloc");
  check(cudaMalloc(&device_out, 8), "malloc");
  CudaStream stream;
  check(cudaMemcpyAsync(device_x, x.data(), 2048, cudaMemcpyHostToDevice, stream.handle()), "copy");
  launch(sum_of_block, 2, 256, 0, stream.handle(), device_x, device_out);
  float out[2] = {};
  check(cudaMemcpyAsync(out, device_out, 8, cudaMemcpyDeviceToHost, stream.handle()), "copy");
  EXPECT_EQ(out[0], 256.0f * 257 / 2);
  EXPECT_EQ(out[1], 512.0f * 513 / 2 - 256.0f * 257 / 2);
  check(cudaFree(device_x), "free");
  check(cudaFree(device_out), "free");
}

}  // namespace
}  // namespace zerolab::cuda
