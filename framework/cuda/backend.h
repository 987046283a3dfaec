#pragma once

#include <memory>

#include "framework/core/backend.h"
#include "framework/cuda/device.h"

namespace zerolab {

/// The kernels of NVIDIA GPUs; fp32, bf16 and fp16. Rank r computes on device r modulo their
/// number. Throws `Error` that says what is missing: the build, the driver, a device.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace zerolab
