// Memory: allocation, copies, fills.

#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda_sim/device.h"

using zerolab::cuda_sim::call;
using zerolab::cuda_sim::Device;

namespace {

bool is_pinned(const Device& device, const void* pointer, size_t bytes) {
  const auto* first = static_cast<const std::byte*>(pointer);
  auto at = device.pinned.upper_bound(const_cast<std::byte*>(first));
  return at != device.pinned.begin() && (--at, first + bytes <= at->first + at->second);
}

/// Queues a copy. Host memory that is not pinned is read before this returns, and written before it
/// returns, as in CUDA.
cudaError_t copy(Device& device, CUstream_st* stream, void* out, const void* source, size_t bytes,
                 cudaMemcpyKind kind) {
  const bool from_device = device.memory.contains(source, bytes);
  const bool to_device = device.memory.contains(out, bytes);
  const bool expected_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool expected_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (kind != cudaMemcpyDefault && (from_device != expected_from || to_device != expected_to)) {
    return cudaErrorInvalidValue;
  }
  if (!from_device && !is_pinned(device, source, bytes)) {
    const auto* first = static_cast<const std::byte*>(source);
    device.enqueue(stream, [out, bytes, staged = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(out, staged.data(), bytes);
    });
  } else {
    device.enqueue(stream, [=] { std::memmove(out, source, bytes); });
  }
  if (!to_device && !is_pinned(device, out, bytes)) {
    return device.run_until(*device.record(stream));
  }
  return cudaSuccess;
}

cudaError_t fill(Device& device, CUstream_st* stream, void* out, int value, size_t bytes) {
  if (!device.memory.contains(out, bytes)) {
    return cudaErrorInvalidValue;
  }
  device.enqueue(stream, [=] { std::memset(out, value, bytes); });
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return call([&](Device& device) {
    *pointer = bytes == 0 ? nullptr : device.memory.allocate(bytes);
    return bytes == 0 || *pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaFree(void* pointer) {
  return call([&](Device& device) {
    return pointer == nullptr || device.memory.free(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return call([&](Device& device) {
    auto* memory = static_cast<std::byte*>(std::malloc(bytes));
    if (memory == nullptr) {
      return cudaErrorMemoryAllocation;
    }
    std::memset(memory, 0xFF, bytes);
    device.pinned[memory] = bytes;
    *pointer = memory;
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  return call([&](Device& device) {
    if (pointer != nullptr && device.pinned.erase(static_cast<std::byte*>(pointer)) == 0) {
      return cudaErrorInvalidValue;
    }
    std::free(pointer);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* out, const void* source, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return call([&](Device& device) {
    CUstream_st* stream = device.find(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : copy(device, stream, out, source, bytes, kind);
  });
}

cudaError_t cudaMemcpy(void* out, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return call([&](Device& device) {
    CUstream_st* stream = device.find(nullptr);
    const cudaError_t status = copy(device, stream, out, source, bytes, kind);
    return status == cudaSuccess ? device.run_until(*device.record(stream)) : status;
  });
}

cudaError_t cudaMemsetAsync(void* out, int value, size_t bytes, cudaStream_t handle) {
  return call([&](Device& device) {
    CUstream_st* stream = device.find(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : fill(device, stream, out, value, bytes);
  });
}

cudaError_t cudaMemset(void* out, int value, size_t bytes) {
  return call([&](Device& device) {
    CUstream_st* stream = device.find(nullptr);
    const cudaError_t status = fill(device, stream, out, value, bytes);
    return status == cudaSuccess ? device.run_until(*device.record(stream)) : status;
  });
}
