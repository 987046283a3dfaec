#pragma once

#include <initializer_list>
#include <vector>

#include "framework/cuda/check.h"

namespace zerolab::cuda_sim {

/// Memory of the simulated device with host values, for tests.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    cuda::check(cudaMalloc(&data_, size * sizeof(T)), "allocating");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cuda::check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
                "copying");
  }
  explicit DeviceArray(std::initializer_list<T> values) : DeviceArray(std::vector<T>(values)) {}
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  /// At once: waits for no stream but the default one.
  std::vector<T> values() const {
    std::vector<T> out(size_);
    cuda::check(cudaMemcpy(out.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
                "copying");
    return out;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

/// A stream of the simulated device, for tests.
class DeviceStream {
 public:
  DeviceStream() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
  }
  ~DeviceStream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  cudaStream_t handle() const { return stream_; }
  void synchronize() const { cuda::check(cudaStreamSynchronize(stream_), "work on a stream"); }
  /// Later work here comes after what is on `other` now.
  void wait_for(const DeviceStream& other) const {
    cudaEvent_t event = nullptr;
    cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    cuda::check(cudaEventRecord(event, other.stream_), "recording");
    cuda::check(cudaStreamWaitEvent(stream_, event, 0), "waiting");
    cuda::check(cudaEventDestroy(event), "destroying an event");
  }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace zerolab::cuda_sim
