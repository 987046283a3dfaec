#pragma once

#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda_sim/block.h"
#include "cuda_sim/memory.h"

namespace zerolab::cuda_sim {

inline constexpr size_t kMaxSharedBytes = 227 * 1024;  ///< a block's, of sm_90

/// What becomes of a collective.
enum class Fault { kNone, kReported, kSilent };

/// A point in a stream: reached when all that was queued before has run. Or where several streams
/// meet.
struct Mark {
  CUstream_st* stream = nullptr;  ///< its queue leads there; null: another host thread must queue
  bool reached = false;
  std::chrono::steady_clock::time_point time{};
};

/// What a stream does next: wait until `wait_for` is reached (if given), then run `body`.
struct Operation {
  std::shared_ptr<Mark> wait_for;
  std::function<void()> body;
};

}  // namespace zerolab::cuda_sim

/// What CUDA's handles point at.
struct CUstream_st {
  std::deque<zerolab::cuda_sim::Operation> operations;
  int priority = 0;
  bool destroyed = false;  ///< by its owner; goes when it has run dry
};
struct CUevent_st {
  std::shared_ptr<zerolab::cuda_sim::Mark> mark;  ///< of the last record; null before the first
  bool timed = true;
};

namespace zerolab::cuda_sim {

/// The state of the simulated devices, one for the process; every call of the runtime holds its
/// lock (see `call`). Work of all devices and host threads is executed by whichever host thread
/// synchronises.
class Device {
 public:
  static Device& instance();

  /// The stream behind a handle (null: the default stream; or the thread's own); null if there is
  /// none.
  CUstream_st* find(cudaStream_t handle);
  void enqueue(CUstream_st* stream, std::function<void()> body,
               std::shared_ptr<Mark> wait_for = nullptr);
  std::shared_ptr<Mark> record(CUstream_st* stream);
  /// Executes queued work until `mark` is reached: now and then only what it needs, else also work
  /// of other streams, in a random order. Returns the sticky error.
  cudaError_t run_until(const Mark& mark);
  cudaError_t run_all();
  /// Executes some work or none: what a poll may find done.
  cudaError_t run_a_little();
  /// Deletes a destroyed stream that has run dry.
  void forget_if_done(CUstream_st* stream);

  /// Tells host threads that wait for one another's work to look again.
  void notify() { changed_.notify_all(); }

  /// The device is unusable from here on; every later call says `error`.
  cudaError_t break_down(cudaError_t error, std::string text);

  std::mutex mutex;
  cudaError_t sticky = cudaSuccess;  ///< what every call says once the device has broken down
  std::string error_text;
  Random random{0};
  Memory memory;
  int num_devices = 1;
  size_t host_waits = 0;
  bool peers_reach_each_other = true;
  std::set<std::pair<int, int>> peer_access;  ///< (device, peer) that were enabled
  Fault nccl_fault = Fault::kNone;            ///< of the next collective that all have come to
  std::chrono::milliseconds patience{60'000};
  std::vector<std::unique_ptr<CUstream_st>> streams;  ///< the default stream first
  std::unordered_map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::map<std::byte*, size_t> pinned;                         ///< host memory, with its bytes
  std::unordered_map<const void*, size_t> max_dynamic_shared;  ///< of functions that asked for more

 private:
  Device();
  /// Executes the next operation that `stream`, which has work, needs; false if that is not queued.
  bool step(CUstream_st* stream);
  /// The same, or waits for another host thread to queue it, at most `patience` since `progress`.
  void advance(CUstream_st* stream, std::chrono::steady_clock::time_point& progress);
  CUstream_st* random_busy_stream();

  std::condition_variable_any changed_;
};

/// This host thread's state.
struct HostThread {
  int device = 0;
  CUstream_st* stream = nullptr;  ///< cudaStreamPerThread, once used
  cudaError_t last_error = cudaSuccess;
  bool executes = false;  ///< it is in an operation, where the runtime may not be called
};
HostThread& host_thread();

/// Runs the body of a runtime's function under the device's lock, unless the device has broken
/// down; notes its error as this thread's last. An exception is damaged memory.
template <typename Body>
cudaError_t call(Body&& body) {
  cudaError_t status = cudaErrorNotPermitted;
  if (!host_thread().executes) {
    Device& device = Device::instance();
    const std::lock_guard lock(device.mutex);
    try {
      status = device.sticky == cudaSuccess ? body(device) : device.sticky;
    } catch (const std::exception& error) {
      status = device.break_down(cudaErrorIllegalAddress, error.what());
    }
  }
  if (status != cudaSuccess) {
    host_thread().last_error = status;
  }
  return status;
}

}  // namespace zerolab::cuda_sim
