#pragma once

#include <memory>

#include "framework/core/backend.h"
#include "framework/cuda/device.h"

namespace zerolab {

/// The kernels of NVIDIA GPUs, for the ranks that compute on this `device`; fp32, bf16 and fp16.
/// Throws `Error` that says what is missing: the build, the driver, the device.
std::unique_ptr<Backend> make_cuda_backend(int device = 0);

}  // namespace zerolab
