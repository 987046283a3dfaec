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

}  // namespace zerolab::cuda_sim
