#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cuda_sim/test_device.h"
#include "framework/cuda/launch.h"

namespace zerolab::cuda_sim {
namespace {

using cuda::launch;

__global__ void store_at(float* x, int index) { x[index] = 1.0F; }

TEST(CudaSimMemory, IsNaNWhenFresh) {
  reset(1);
  float* first = nullptr;
  {
    const DeviceArray<float> x(std::vector<float>(3, 1.0F));
    first = x.data();
  }
  const DeviceArray<float> again(3);
  EXPECT_EQ(again.data(), first);  // reused at once
  for (const float value : again.values()) {
    EXPECT_TRUE(std::isnan(value));
  }
}

// The address sanitizer stops the program at these faults.
#ifndef __SANITIZE_ADDRESS__
TEST(CudaSimMemory, AWriteIntoARedZoneIsFoundAtTheFree) {
  for (const int index : {3, 60, -1}) {
    reset(2);
    float* x = nullptr;
    cuda::check(cudaMalloc(&x, 3 * sizeof(float)), "allocating");
    launch(store_at, 1, 1, 0, nullptr, x, index);
    cuda::check(cudaDeviceSynchronize(), "working");
    EXPECT_EQ(cudaFree(x), cudaErrorIllegalAddress);
    EXPECT_NE(last_error().find(index < 0 ? "before an allocation" : "beyond an allocation"),
              std::string::npos)
        << last_error();
  }
  reset();
}

TEST(CudaSimMemory, AWriteAfterTheFreeIsFound) {
  reset(3);
  float* x = nullptr;
  cuda::check(cudaMalloc(&x, 1000), "allocating");
  launch(store_at, 1, 1, 0, nullptr, x, 0);
  cuda::check(cudaFree(x), "freeing");  // waits for nothing
  cuda::check(cudaDeviceSynchronize(), "working");
  EXPECT_EQ(cudaMalloc(&x, 1000), cudaErrorIllegalAddress);
  EXPECT_NE(last_error().find("after cudaFree, at byte 0"), std::string::npos) << last_error();
  reset();
}

TEST(CudaSimMemory, AllOfItCanBeChecked) {
  reset(3);
  const DeviceArray<float> x(3);
  check_memory();
  launch(store_at, 1, 1, 0, nullptr, x.data(), 3);
  cuda::check(cudaDeviceSynchronize(), "working");
  EXPECT_THROW(check_memory(), std::runtime_error);
  check_memory();  // mended
}
#else
TEST(CudaSimMemoryDeathTest, TheHostMayNotTouchIt) {
  reset(2);
  const DeviceArray<float> x(std::vector<float>(3, 1.0F));
  EXPECT_DEATH(std::printf("%f", static_cast<double>(x.data()[0])), "use-after-poison");
}

TEST(CudaSimMemoryDeathTest, AKernelMayNotLeaveAnAllocation) {
  reset(3);
  const DeviceArray<float> x(3);
  launch(store_at, 1, 1, 0, nullptr, x.data(), 3);
  EXPECT_DEATH(cudaDeviceSynchronize(), "use-after-poison");
  reset();
}
#endif

TEST(CudaSimMemory, ADoubleFreeIsAnError) {
  reset(4);
  const size_t before = num_allocations();
  float* x = nullptr;
  cuda::check(cudaMalloc(&x, 4), "allocating");
  EXPECT_EQ(num_allocations(), before + 1);
  EXPECT_EQ(cudaFree(x + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(x), cudaSuccess);
  EXPECT_EQ(cudaFree(x), cudaErrorInvalidValue);
  EXPECT_EQ(num_allocations(), before);
}

TEST(CudaSimMemory, HasALimit) {
  reset(5);
  set_devices(1, 1000);
  float* x = nullptr;
  EXPECT_EQ(cudaMalloc(&x, 1001), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&x, 1000), cudaSuccess);  // nothing sticks
  size_t free = 1, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "asking");
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, 1000u);
  cuda::check(cudaFree(x), "freeing");
  set_devices(1);
}

TEST(CudaSimMemory, OnlyPinnedMemoryIsReadLate) {
  reset(6);
  DeviceStream stream;
  const DeviceArray<int> x(2);
  int pageable = 1;
  int* pinned = nullptr;
  cuda::check(cudaMallocHost(&pinned, sizeof(int)), "pinning");
  *pinned = 1;
  cuda::check(cudaMemcpyAsync(x.data(), &pageable, 4, cudaMemcpyHostToDevice, stream.handle()),
              "copying");
  cuda::check(cudaMemcpyAsync(x.data() + 1, pinned, 4, cudaMemcpyHostToDevice, stream.handle()),
              "copying");
  pageable = *pinned = 2;
  stream.synchronize();
  EXPECT_EQ(x.values(), std::vector<int>({1, 2}));
  cuda::check(cudaFreeHost(pinned), "freeing");
}

TEST(CudaSimMemory, CopiesOutsideAnAllocationAreRefused) {
  reset(7);
  const DeviceArray<int> x(2);
  int host[3] = {};
  EXPECT_EQ(cudaMemcpy(x.data(), host, 12, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host, 4, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(x.data() + 1, 0, 8), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace zerolab::cuda_sim
