#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "cuda_sim/test_device.h"
#include "framework/cuda/launch.h"

namespace zerolab::cuda_sim {
namespace {

using cuda::launch;

constexpr int kStreamSeeds = 50;

__global__ void set_to(int* x, int value) { *x = value; }
__global__ void times_ten_plus(int* x, int digit) { *x = *x * 10 + digit; }
__global__ void copy_one(const int* x, int* out) { *out = *x; }

TEST(CudaSimStreams, AStreamKeepsItsOrder) {
  for (int seed = 0; seed < kStreamSeeds; ++seed) {
    reset(seed);
    DeviceStream stream, other;
    const DeviceArray<int> x({0}), y({0});
    for (int digit = 1; digit <= 5; ++digit) {
      launch(times_ten_plus, 1, 1, 0, stream.handle(), x.data(), digit);
      launch(times_ten_plus, 1, 1, 0, other.handle(), y.data(), 6 - digit);
    }
    stream.synchronize();
    EXPECT_EQ(x.values()[0], 12345);
    other.synchronize();
    EXPECT_EQ(y.values()[0], 54321);
  }
}

/// What a consumer stream reads from a producer's, and whether the producer's next write is before
/// that: with the events that order all three, or without one of them.
std::set<int> values_read(bool wait_before_reading, bool wait_before_writing) {
  std::set<int> found;
  for (int seed = 0; seed < kStreamSeeds; ++seed) {
    reset(seed);
    DeviceStream producer, consumer;
    const DeviceArray<int> x({0}), out({0});
    launch(set_to, 1, 1, 0, producer.handle(), x.data(), 1);
    if (wait_before_reading) {
      consumer.wait_for(producer);
    }
    launch(copy_one, 1, 1, 0, consumer.handle(), x.data(), out.data());
    if (wait_before_writing) {
      producer.wait_for(consumer);
    }
    launch(set_to, 1, 1, 0, producer.handle(), x.data(), 2);
    (seed % 2 == 0 ? producer : consumer).synchronize();
    consumer.synchronize();
    found.insert(out.values()[0]);
    producer.synchronize();
  }
  return found;
}

TEST(CudaSimStreams, EventsOrderStreamsUnderEverySeed) {
  EXPECT_EQ(values_read(true, true), std::set<int>({1}));
}

TEST(CudaSimStreams, FindsAMissingEvent) {
  EXPECT_TRUE(values_read(false, true).contains(0));
  EXPECT_TRUE(values_read(true, false).contains(2));
}

TEST(CudaSimStreams, FindsAMissingSynchronisation) {
  std::set<int> found;
  for (int seed = 0; seed < kStreamSeeds; ++seed) {
    reset(seed);
    const DeviceArray<int> x({0});
    DeviceStream stream;  // done before x is freed
    launch(set_to, 1, 1, 0, stream.handle(), x.data(), 1);
    found.insert(x.values()[0]);  // the default stream does not wait for `stream`
  }
  EXPECT_TRUE(found.contains(0));
}

TEST(CudaSimStreams, PollingGetsDone) {
  reset(7);
  DeviceStream stream;
  const DeviceArray<int> x({0});
  launch(set_to, 1, 1, 0, stream.handle(), x.data(), 1);
  int polls = 1;
  while (cudaStreamQuery(stream.handle()) == cudaErrorNotReady) {
    ++polls;
  }
  EXPECT_LT(polls, 100);
  EXPECT_EQ(x.values()[0], 1);
}

TEST(CudaSimStreams, AWaitIsForTheRecordBeforeIt) {
  reset(8);
  DeviceStream first, second;
  const DeviceArray<int> x({0}), out({0});
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreate(&event), "creating");
  launch(set_to, 1, 1, 0, first.handle(), x.data(), 1);
  cuda::check(cudaEventRecord(event, first.handle()), "recording");
  cuda::check(cudaStreamWaitEvent(second.handle(), event, 0), "waiting");
  launch(copy_one, 1, 1, 0, second.handle(), x.data(), out.data());
  cuda::check(cudaEventRecord(event, second.handle()), "recording again");  // no circle
  cuda::check(cudaEventSynchronize(event), "waiting");
  EXPECT_EQ(out.values()[0], 1);
  cuda::check(cudaEventDestroy(event), "destroying");
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
}

TEST(CudaSimStreams, ADestroyedStreamFinishesItsWork) {
  reset(9);
  const DeviceArray<int> x({0});
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating");
  launch(set_to, 1, 1, 0, stream, x.data(), 1);
  cuda::check(cudaStreamDestroy(stream), "destroying");
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  cuda::check(cudaDeviceSynchronize(), "waiting");
  EXPECT_EQ(x.values()[0], 1);
}

TEST(CudaSimStreams, EachHostThreadHasAStreamOfItsOwn) {
  reset(10);
  const DeviceArray<int> x({0}), y({0});
  launch(times_ten_plus, 1, 1, 0, cudaStreamPerThread, x.data(), 1);
  std::thread([&] {
    launch(times_ten_plus, 1, 1, 0, cudaStreamPerThread, y.data(), 2);
    cuda::check(cudaStreamSynchronize(cudaStreamPerThread), "waiting");
  }).join();
  EXPECT_EQ(y.values()[0], 2);
  cuda::check(cudaStreamSynchronize(cudaStreamPerThread), "waiting");
  EXPECT_EQ(x.values()[0], 1);
}

TEST(CudaSimStreams, HostFunctionsRunInOrderAndMayNotCallTheRuntime) {
  reset(10);
  DeviceStream stream;
  cudaError_t inside = cudaSuccess;
  cuda::check(
      cudaLaunchHostFunc(
          stream.handle(),
          [](void* data) { *static_cast<cudaError_t*>(data) = cudaDeviceSynchronize(); }, &inside),
      "launching");
  stream.synchronize();
  EXPECT_EQ(inside, cudaErrorNotPermitted);
}

TEST(CudaSimStreams, TimesAreMeasuredBetweenEvents) {
  reset(11);
  cudaEvent_t start = nullptr, end = nullptr;
  cuda::check(cudaEventCreate(&start), "creating");
  cuda::check(cudaEventCreate(&end), "creating");
  cuda::check(cudaEventRecord(start, nullptr), "recording");
  cuda::check(cudaEventRecord(end, nullptr), "recording");
  float milliseconds = -1.0F;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  cuda::check(cudaEventSynchronize(end), "waiting");
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0.0F);
  cuda::check(cudaEventDestroy(start), "destroying");
  cuda::check(cudaEventDestroy(end), "destroying");
}

}  // namespace
}  // namespace zerolab::cuda_sim
