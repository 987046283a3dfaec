#pragma once

#include <cuda_runtime.h>

#include "framework/core/stream.h"

namespace zerolab::cuda {

/// A stream of the current device. Work is put on it with `launch` (launch.h); errors of earlier work
/// come out of `synchronize` and of events.
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
  cudaStream_t handle() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

inline cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace zerolab::cuda
