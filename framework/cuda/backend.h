#pragma once

#include <memory>

#include "framework/core/backend.h"
#include "framework/cuda/device.h"

namespace zerolab {

struct CudaOptions {
  int device = 0;
  bool tf32 = false;  ///< fp32 products take factors of 10 bits of fraction, on tensor cores
};

/// The kernels of NVIDIA GPUs, for the ranks that compute on `options.device`; fp32, bf16 and fp16.
/// Throws `Error` that says what is missing: the build, the driver, the device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options = {});

}  // namespace zerolab
