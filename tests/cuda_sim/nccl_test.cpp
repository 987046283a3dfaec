#include <gtest/gtest.h>
#include <nccl.h>

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_sim/device.h"
#include "cuda_sim/simulator.h"
#include "cuda_sim/test_device.h"

namespace zerolab::cuda_sim {
namespace {

constexpr int kRanks = 3;

using Body = std::function<void(int, ncclComm_t&, cudaStream_t)>;

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(comm, &state);
  return state;
}

/// What comes of a call, once it is no longer in progress.
ncclResult_t finished(ncclResult_t result, ncclComm_t comm) {
  while (result == ncclInProgress) {
    std::this_thread::yield();
    result = state_of(comm);
  }
  return result;
}

/// Runs `body(rank, comm, stream)` in one thread for each rank of a communicator, each with a
/// device of its own. Who aborts the communicator makes it null.
void run_ranks(const Body& body, bool blocking = true) {
  set_devices(kRanks);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      cudaSetDevice(rank);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = blocking ? 1 : 0;
      ncclComm_t comm = nullptr;
      const ncclResult_t result = ncclCommInitRankConfig(&comm, kRanks, id, rank, &config);
      ASSERT_EQ(result, blocking ? ncclSuccess : ncclInProgress);
      ASSERT_EQ(finished(result, comm), ncclSuccess);
      const DeviceStream stream;
      body(rank, comm, stream.handle());
      cudaStreamSynchronize(stream.handle());
      if (comm != nullptr) {
        ncclCommDestroy(comm);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  set_devices(1);
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

/// Everyone sends a number to everyone else, in one group.
TEST(CudaSimNccl, TransfersOfAGroupGoOnTogether) {
  for (int seed = 0; seed < 20; ++seed) {
    reset(seed);
    run_ranks(
        [](int rank, ncclComm_t comm, cudaStream_t stream) {
          const DeviceArray<int> mine({10 * rank, 10 * rank + 1, 10 * rank + 2});
          const DeviceArray<int> theirs({-1, -1, -1});
          for (int round = 0; round < 3; ++round) {
            ncclGroupStart();
            for (int peer = 0; peer < kRanks; ++peer) {
              if (peer != rank) {
                ncclSend(mine.data() + peer, 1, ncclInt, peer, comm, stream);
                ncclRecv(theirs.data() + peer, 1, ncclInt, peer, comm, stream);
              }
            }
            ASSERT_EQ(finished(ncclGroupEnd(), comm), ncclSuccess);
          }
          cuda::check(cudaStreamSynchronize(stream), "working");
          std::vector<int> expected({rank, 10 + rank, 20 + rank});
          expected[static_cast<size_t>(rank)] = -1;
          EXPECT_EQ(theirs.values(), expected);
        },
        seed % 2 == 0);
  }
}

TEST(CudaSimNccl, WorkIsNotQueuedWhileACallIsInProgress) {
  int deferred = 0;
  for (int seed = 0; seed < 20; ++seed) {
    reset(seed);
    run_ranks(
        [&](int rank, ncclComm_t comm, cudaStream_t stream) {
          const DeviceArray<int> x({rank + 1});
          const ncclResult_t result =
              ncclAllReduce(x.data(), x.data(), 1, ncclInt, ncclSum, comm, stream);
          if (rank == 0 && result == ncclInProgress) {
            ++deferred;
            cuda::check(cudaStreamSynchronize(stream), "working");
            EXPECT_EQ(x.values()[0], 1);
            EXPECT_EQ(ncclAllReduce(x.data(), x.data(), 1, ncclInt, ncclSum, comm, stream),
                      ncclInvalidArgument);
          }
          ASSERT_EQ(finished(result, comm), ncclSuccess);
          cuda::check(cudaStreamSynchronize(stream), "working");
          EXPECT_EQ(x.values()[0], 6);
        },
        false);
  }
  EXPECT_GT(deferred, 0);
}

TEST(CudaSimNccl, DifferentCallsAreAnErrorOfAll) {
  reset(1);
  run_ranks([](int rank, ncclComm_t comm, cudaStream_t stream) {
    const DeviceArray<float> x(3);
    ncclAllReduce(x.data(), x.data(), rank == 0 ? 2 : 3, ncclFloat, ncclSum, comm, stream);
    cuda::check(cudaStreamSynchronize(stream), "working");
    EXPECT_EQ(state_of(comm), ncclInvalidUsage);
  });
}

TEST(CudaSimNccl, AnAbortEndsWhatAFaultHasStopped) {
  reset(3);
  fail_next_collective();
  run_ranks([](int rank, ncclComm_t& comm, cudaStream_t stream) {
    const DeviceArray<int> x({rank + 1});
    ncclAllReduce(x.data(), x.data(), 1, ncclInt, ncclSum, comm, stream);
    while (state_of(comm) == ncclSuccess) {
      cudaStreamQuery(stream);
    }
    EXPECT_EQ(state_of(comm), ncclRemoteError);
    EXPECT_STREQ(ncclGetLastError(comm), "a simulated fault");
    ncclCommAbort(std::exchange(comm, nullptr));
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(x.values()[0], rank + 1);
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
