#include "framework/cuda/backend.h"

#include "framework/cuda/allocator.h"
#include "framework/cuda/check.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/cuda_stream.h"

namespace zerolab {

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  const cuda::Devices devices = cuda::find_devices();
  require(devices.is_available(), "cuda", "{}", devices.missing);
  return std::make_unique<CudaBackend>(static_cast<int>(devices.found.size()), options);
}

CudaBackend::CudaBackend(int num_devices, const CudaOptions& options)
    : num_devices_(num_devices),
      products_(options.tf32),
      cudnn_attention_(options.attention == CudaAttention::kCudnn ? cuda::make_cudnn_attention()
                                                                  : nullptr) {}

std::unique_ptr<Allocator> CudaBackend::make_allocator(MemoryLedger& ledger, bool poison) const {
  return std::make_unique<cuda::CudaAllocator>(ledger, poison);
}

std::unique_ptr<RankStreams> CudaBackend::make_streams(StreamMode /*mode*/,
                                                       uint64_t /*lazy_seed*/) const {
  return std::make_unique<cuda::CudaStreams>();
}

void CudaBackend::bind_thread(int rank, int /*threads*/) const {
  cuda::check(cudaSetDevice(rank % num_devices_), "choosing a device");
}

void CudaBackend::copy_from_host(Stream& stream, std::span<const std::byte> source,
                                 const Tensor& out) {
  static_cast<cuda::CudaStream&>(stream).copy_from_host(source, out.raw());
}

void CudaBackend::copy_to_host(const Tensor& source, std::span<std::byte> out) {
  if (out.empty()) {
    return;
  }
  // The default stream would make ranks that share a device wait for each other.
  cuda::check(cudaMemcpyAsync(out.data(), source.raw(), out.size(), cudaMemcpyDeviceToHost,
                              cudaStreamPerThread),
              "copying to the host");
  cuda::check(cudaStreamSynchronize(cudaStreamPerThread), "copying to the host");
}

void CudaBackend::copy_at_once(std::span<const std::byte> source, std::byte* out) {
  if (source.empty()) {
    return;
  }
  cuda::check(cudaMemcpyAsync(out, source.data(), source.size(), cudaMemcpyDeviceToDevice,
                              cudaStreamPerThread),
              "copying between ranks");
  cuda::check(cudaStreamSynchronize(cudaStreamPerThread), "copying between ranks");
}

}  // namespace zerolab
