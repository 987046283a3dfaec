#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "cuda_sim/test_device.h"
#include "framework/cuda/launch.h"

namespace zerolab::cuda_sim {
namespace {

using cuda::launch;

__global__ void nothing() {}
__global__ void throws_at_once() { throw std::runtime_error("illegal"); }

TEST(CudaSimDevice, AFailedKernelBreaksTheDeviceDown) {
  reset(1);
  DeviceStream stream;
  launch(throws_at_once, 1, 1, 0, stream.handle());  // the launch itself is fine
  EXPECT_THROW(
      {
        try {
          stream.synchronize();
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("illegal (cudaErrorLaunchFailure)"),
                    std::string::npos)
              << error.what();
          throw;
        }
      },
      Error);
  EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 4), cudaErrorLaunchFailure);
  EXPECT_THROW(launch(nothing, 1, 1, 0, stream.handle()), Error);
  reset();
  launch(nothing, 1, 1, 0, stream.handle());
  stream.synchronize();
}

TEST(CudaSimDevice, AWrongLaunchIsRefusedAndForgotten) {
  reset(2);
  EXPECT_THROW(launch(nothing, 0, 1, 0, nullptr), Error);
  EXPECT_THROW(launch(nothing, 1, 1025, 0, nullptr), Error);
  EXPECT_THROW(launch(nothing, dim3(1, 65536), 1, 0, nullptr), Error);
  EXPECT_THROW(launch(nothing, 1, 1, 49153, nullptr), Error);
  const auto* function = reinterpret_cast<const void*>(&nothing);
  EXPECT_EQ(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, 300000),
            cudaErrorInvalidValue);
  cuda::check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000),
              "asking for shared memory");
  launch(nothing, 1, 1, 100000, nullptr);
  cuda::check(cudaDeviceSynchronize(), "working");
}

TEST(CudaSimDevice, ThereAreAsManyAsTheTestSays) {
  reset(3);
  set_devices(2);
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  set_devices(0);
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  set_devices(1);
}

}  // namespace
}  // namespace zerolab::cuda_sim
