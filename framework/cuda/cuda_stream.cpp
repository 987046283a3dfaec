#include "framework/cuda/cuda_stream.h"

#include "framework/cuda/check.h"

namespace zerolab::cuda {
namespace {

class CudaEvent final : public EventState {
 public:
  explicit CudaEvent(cudaStream_t stream) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
    check(cudaEventRecord(event_, stream), "recording an event");
  }
  ~CudaEvent() override { cudaEventDestroy(event_); }
  bool is_complete() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status != cudaErrorNotReady) {
      check(status, "work before an event");
    }
    return status == cudaSuccess;
  }
  void synchronize() override { check(cudaEventSynchronize(event_), "work before an event"); }
  cudaEvent_t handle() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

CudaStream::CudaStream(int priority) {
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
        "creating a stream");
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

Event CudaStream::record() { return Event(std::make_shared<CudaEvent>(stream_)); }

void CudaStream::wait(const Event& event) {
  if (const auto* device = dynamic_cast<const CudaEvent*>(event.state().get())) {
    check(cudaStreamWaitEvent(stream_, device->handle(), 0), "waiting for an event");
  } else {
    event.synchronize();
  }
}

void CudaStream::synchronize() { check(cudaStreamSynchronize(stream_), "work on a stream"); }

}  // namespace zerolab::cuda
