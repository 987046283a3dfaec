#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <thread>
#include <vector>

#include "cuda_sim/device.h"
#include "cuda_sim/simulator.h"
#include "cuda_sim/test_device.h"

namespace zerolab::cuda_sim {
namespace {

constexpr int kRanks = 3;

/// Runs `body(rank, comm, stream)` in one thread for each rank of a communicator.
void run_ranks(const std::function<void(int, ncclComm_t, cudaStream_t)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      ncclComm_t comm = nullptr;
      ASSERT_EQ(ncclCommInitRank(&comm, kRanks, id, rank), ncclSuccess);
      const DeviceStream stream;
      body(rank, comm, stream.handle());
      cudaStreamSynchronize(stream.handle());
      ncclCommDestroy(comm);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST(CudaSimNccl, EveryVerbUnderManySeeds) {
  for (int seed = 0; seed < 20; ++seed) {
    reset(seed);
    run_ranks([](int rank, ncclComm_t comm, cudaStream_t stream) {
      const auto r = static_cast<float>(rank);
      const DeviceArray<float> x(std::vector<float>({r, 10 * r, 100}));
      const DeviceArray<float> sum(3), own(1), all(3), reduced(3), sent(3);
      ncclAllReduce(x.data(), sum.data(), 3, ncclFloat, ncclSum, comm, stream);
      ncclReduceScatter(x.data(), own.data(), 1, ncclFloat, ncclMax, comm, stream);
      ncclAllGather(x.data(), all.data(), 1, ncclFloat, comm, stream);
      ncclReduce(x.data(), reduced.data(), 3, ncclFloat, ncclAvg, 1, comm, stream);
      ncclBroadcast(x.data(), sent.data(), 3, ncclFloat, 2, comm, stream);
      cuda::check(cudaStreamSynchronize(stream), "working");
      EXPECT_EQ(sum.values(), std::vector<float>({3, 30, 300}));
      EXPECT_EQ(own.values()[0], std::vector<float>({2, 20, 100})[static_cast<size_t>(rank)]);
      EXPECT_EQ(all.values(), std::vector<float>({0, 1, 2}));
      EXPECT_EQ(sent.values(), std::vector<float>({2, 20, 100}));
      if (rank == 1) {
        EXPECT_EQ(reduced.values(), std::vector<float>({1, 10, 100}));
      }
    });
  }
}

TEST(CudaSimNccl, DifferentCallsAreAnErrorOfAll) {
  reset(1);
  run_ranks([](int rank, ncclComm_t comm, cudaStream_t stream) {
    const DeviceArray<float> x(3);
    ncclAllReduce(x.data(), x.data(), rank == 0 ? 2 : 3, ncclFloat, ncclSum, comm, stream);
    cuda::check(cudaStreamSynchronize(stream), "working");
    ncclResult_t error = ncclSuccess;
    ncclCommGetAsyncError(comm, &error);
    EXPECT_EQ(error, ncclInvalidUsage);
  });
}

TEST(CudaSimNccl, AMissingRankEndsInATimeoutOfTheDevice) {
  reset(2);
  Device::instance().patience = std::chrono::milliseconds(50);
  run_ranks([](int rank, ncclComm_t comm, cudaStream_t stream) {
    const DeviceArray<float> x(3);
    if (rank == 0) {
      ncclAllReduce(x.data(), x.data(), 3, ncclFloat, ncclSum, comm, stream);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchTimeout);
    }
  });
  Device::instance().patience = std::chrono::milliseconds(60'000);
  reset();
}

}  // namespace
}  // namespace zerolab::cuda_sim
