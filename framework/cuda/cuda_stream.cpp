#include "framework/cuda/cuda_stream.h"

#include <algorithm>
#include <cstring>

#include "framework/cuda/check.h"

namespace zerolab::cuda {
namespace {

constexpr size_t kStagingBytes = size_t{1} << 20;
constexpr std::chrono::seconds kLongestElapsed{4};

void* pinned(size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "allocating pinned memory");
  return memory;
}

cudaError_t state_of(cudaEvent_t event) {
  const cudaError_t state = cudaEventQuery(event);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // or the next launch would report it
  }
  return state;
}

/// Once the work that might report it is done: throws what was wrong with it.
void rethrow(const Fault& fault, const std::function<void()>& wait_check) {
  if (wait_check) {
    wait_check();
  }
  if (fault.count != 0) {
    fail(fault.component, "{}; got {}, expected within [0, {})", fault.what, fault.got,
         fault.limit);
  }
}

class CudaEvent final : public EventState {
 public:
  CudaEvent(cudaStream_t stream, std::shared_ptr<const Fault> fault,
            std::function<void()> wait_check)
      : fault_(std::move(fault)), wait_check_(std::move(wait_check)) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
    check(cudaEventRecord(event_, stream), "recording an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  bool is_complete() const override {
    const cudaError_t state = state_of(event_);
    if (state != cudaErrorNotReady) {
      check(state, "work before an event");
    }
    return state == cudaSuccess;
  }
  void synchronize() override {
    check(cudaEventSynchronize(event_), "work before an event");
    rethrow(*fault_, wait_check_);
  }
  cudaEvent_t handle() const { return event_; }
  const std::function<void()>& wait_check() const { return wait_check_; }

 private:
  cudaEvent_t event_ = nullptr;
  const std::shared_ptr<const Fault> fault_;
  const std::function<void()> wait_check_;
};

}  // namespace

TimedEvent::TimedEvent(cudaStream_t stream, std::shared_ptr<const TimedEvent> base)
    : base_(std::move(base)) {
  check(cudaEventCreate(&event_), "creating a timed event");
  check(cudaEventRecord(event_, stream), "recording a timed event");
  if (base_ == nullptr) {
    check(cudaEventSynchronize(event_), "work before a timed event");
    time_ = Clock::now();
  }
}

TimedEvent::~TimedEvent() { cudaEventDestroy(event_); }

std::optional<Clock::time_point> TimedEvent::time() const {
  const std::lock_guard lock(mutex_);
  if (!time_.has_value() && state_of(event_) == cudaSuccess) {
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, base_->event_, event_), "reading a timed event");
    time_ = base_->time().value() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double, std::milli>(milliseconds));
    base_ = nullptr;
  }
  return time_;
}

CudaStream::CudaStream(int priority)
    : fault_(new (pinned(sizeof(Fault))) Fault{}, [](Fault* fault) { cudaFreeHost(fault); }) {
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
        "creating a stream");
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  for (const Staging& staging : staging_) {
    cudaFreeHost(staging.memory);
  }
}

Event CudaStream::record() {
  return Event(std::make_shared<CudaEvent>(stream_, fault_, wait_check_));
}

void CudaStream::wait(const Event& event) {
  if (const auto* device = dynamic_cast<const CudaEvent*>(event.state().get())) {
    check(cudaStreamWaitEvent(stream_, device->handle(), 0), "waiting for an event");
    if (device->wait_check()) {
      wait_check_ = device->wait_check();
    }
  } else {
    event.synchronize();
  }
}

void CudaStream::synchronize() {
  check(cudaStreamSynchronize(stream_), "work on a stream");
  rethrow(*fault_, wait_check_);
}

void CudaStream::run_on_host(std::function<void()> work) {
  synchronize();
  work();
}

void CudaStream::compare_clock() {
  if (base_ == nullptr) {
    base_ = last_ = std::make_shared<TimedEvent>(stream_, nullptr);
  }
}

void CudaStream::share_clock(CudaStream& other) {
  other.compare_clock();
  base_ = last_ = other.base_;
}

StreamTime CudaStream::time() {
  compare_clock();
  // The elapsed time is an fp32 number. It is counted from a recent point, so that no microseconds
  // are lost.
  const std::optional<Clock::time_point> known = last_->time();
  if (known.has_value() && *known - base_->time().value() > kLongestElapsed) {
    base_ = last_;
  }
  last_ = std::make_shared<TimedEvent>(stream_, base_);
  return StreamTime(last_);
}

Stream& CudaStreams::communication() {
  if (communication_ == nullptr) {
    int lowest = 0;
    int highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for priorities");
    communication_ = std::make_unique<CudaStream>(highest);
    communication_->share_clock(compute_);
  }
  return *communication_;
}

void CudaStream::copy_from_host(std::span<const std::byte> source, std::byte* out) {
  while (!source.empty()) {
    Staging& staging = staging_[next_staging_++ % staging_.size()];
    staging.copied.synchronize();
    if (staging.memory == nullptr) {
      staging.memory = static_cast<std::byte*>(pinned(kStagingBytes));
    }
    const size_t bytes = std::min(kStagingBytes, source.size());
    std::memcpy(staging.memory, source.data(), bytes);
    check(cudaMemcpyAsync(out, staging.memory, bytes, cudaMemcpyHostToDevice, stream_),
          "copying to the device");
    staging.copied = record();
    source = source.subspan(bytes);
    out += bytes;
  }
}

}  // namespace zerolab::cuda
