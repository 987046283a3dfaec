#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

/// A test-only stand-in for the CUDA runtime (and cuBLASLt, NCCL): the backend's unmodified sources
/// run on the host. Streams are queues that run lazily, only as far as a synchronisation demands,
/// in a seeded random order that keeps stream order and event waits and nothing else; a block's
/// threads run one after another, in a seeded order between two barriers. Correct code gives the
/// same bits under every seed; a missing event, synchronisation or barrier does not.
///
/// The subset of CUDA: what runtime_*.cpp, cublaslt.cpp, nccl.cpp and device_functions.h define.
/// Stricter than CUDA where that finds faults: streams are `cudaStreamNonBlocking`; `cudaFree`
/// waits for nothing; all live threads of a block reach the same `__syncthreads`, and all lanes of
/// a shuffle's mask the same shuffle.
namespace zerolab::cuda_sim {

/// Seeds the order of streams, blocks and threads.
void set_seed(uint64_t seed);
/// What the last failed operation of the device said: the exception thrown in a kernel with its
/// block and thread, or the memory fault.
std::string last_error();
/// Forgets queued work, errors and function attributes, and seeds anew: between tests. Memory stays
/// allocated.
void reset(uint64_t seed = 0);
/// How many devices there are (1), the bytes of each (16 GiB), more than which is
/// cudaErrorMemoryAllocation, and whether they could read each other's memory.
void set_devices(int count, size_t bytes = size_t{16} << 30, bool peers_reach_each_other = true);
/// The next collective of NCCL's that all ranks have come to never ends, until it is aborted; its
/// asynchronous error is ncclRemoteError, or where it is `silent`, none.
void fail_next_collective(bool silent = false);
/// Throws std::runtime_error if any allocation was written outside its bounds or after cudaFree.
void check_memory();
/// Device allocations that are live.
size_t num_allocations();

/// How often host threads have waited for work that was not done.
size_t num_host_waits();

/// --- for launch.h ---
struct LaunchShape {
  const void* function = nullptr;
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
};
/// Queues a kernel, whose threads each call `body`.
cudaError_t launch(const LaunchShape& shape, cudaStream_t stream, std::function<void()> body);
std::byte* dynamic_shared_memory();

}  // namespace zerolab::cuda_sim
