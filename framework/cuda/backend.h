#pragma once

#include <memory>

#include "framework/cuda/device.h"
#include "framework/tensor/backend.h"

namespace zerolab {

enum class CudaAttention : uint8_t {
  kFlash,  ///< our own kernel
  kCudnn,  ///< cuDNN 9's, for bf16 and fp16
};

struct CudaOptions {
  bool tf32 = false;  ///< fp32 products take factors of 10 bits of fraction, on tensor cores
  CudaAttention attention = CudaAttention::kFlash;
};

/// The kernels of NVIDIA GPUs; fp32, bf16 and fp16. Rank r computes on device r modulo their
/// number. Throws `Error` that says what is missing: the build, the driver, a device, cuDNN.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

}  // namespace zerolab
