#pragma once

#include <memory>

#include "framework/core/backend.h"
#include "framework/cuda/device.h"

namespace zerolab {

struct CudaOptions {
  bool tf32 = false;  ///< fp32 products take factors of 10 bits of fraction, on tensor cores
};

/// The kernels of NVIDIA GPUs; fp32, bf16 and fp16. Rank r computes on device r modulo their
/// number. Throws `Error` that says what is missing: the build, the driver, a device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

}  // namespace zerolab
