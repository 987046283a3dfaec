#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "framework/core/stream.h"

namespace zerolab::cuda {

/// An index outside its range that a kernel met (kernel.h's `IndexCheck`); in host memory that the
/// device writes.
struct Fault {
  unsigned count;  ///< of such indices; the rest describes one of them
  const char* component;
  const char* what;
  int64_t got;
  int64_t limit;
};

/// A point of a stream, and its time: what elapsed since an earlier one, whose time is known.
/// Thread-safe.
class TimedEvent final : public StreamTimeState {
 public:
  TimedEvent(cudaStream_t stream, std::shared_ptr<const TimedEvent> base);
  ~TimedEvent() override;
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;

  std::optional<Clock::time_point> time() const override;

 private:
  cudaEvent_t event_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const TimedEvent> base_;
  mutable std::optional<Clock::time_point> time_;
};

/// A stream of the current device. Work is put on it with `launch` (launch.h); errors of earlier
/// work, and faults of its input, come out of `synchronize` and of events, again and again.
class CudaStream final : public Stream {
 public:
  /// `priority`: of the device's range; smaller is sooner.
  explicit CudaStream(int priority = 0);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  /// Waits for the stream, then runs `work` in the calling thread.
  void run_on_host(std::function<void()> work) override;
  StreamTime time() override;
  /// Compares the device's clock with the host's when `other`, of the same device, does or did: the
  /// comparison is a little off, but the order of the streams' times then is not.
  void share_clock(CudaStream& other);
  cudaStream_t handle() const { return stream_; }
  /// `check` is called after every host wait for work of this stream, and of streams that have
  /// waited for it: it throws where the work was ended before its time.
  void set_wait_check(std::function<void()> check) { wait_check_ = std::move(check); }

  /// Copies to `out` on the device in stream order, through pinned memory of the stream's own: the
  /// caller may reuse its memory at once, and waits only where more is under way than fits there.
  void copy_from_host(std::span<const std::byte> source, std::byte* out);
  /// Where this stream's kernels report.
  Fault* fault() const { return fault_.get(); }

 private:
  struct Staging {
    std::byte* memory = nullptr;  ///< allocated at its first use
    Event copied;
  };

  void compare_clock();

  cudaStream_t stream_ = nullptr;
  std::shared_ptr<Fault> fault_;
  std::function<void()> wait_check_;  ///< or none
  std::array<Staging, 8> staging_;    ///< used in turn
  size_t next_staging_ = 0;
  std::shared_ptr<const TimedEvent> base_;  ///< whose time is known
  std::shared_ptr<const TimedEvent> last_;
};

/// A rank's streams. Communication has the device's highest priority: it is what others wait for.
class CudaStreams final : public RankStreams {
 public:
  Stream& compute() override { return compute_; }
  Stream& communication() override;

 private:
  CudaStream compute_;
  std::unique_ptr<CudaStream> communication_;
};

inline cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace zerolab::cuda
