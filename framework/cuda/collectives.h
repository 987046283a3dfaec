#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "framework/core/dtype.h"

namespace zerolab::cuda {

/// Backend::reduce_in_order in the order of `stream`. The memory is of this device, or of one that
/// it can read. Throws for more than 256 sources.
void reduce_in_order(cudaStream_t stream, std::span<const std::byte* const> sources, DType dtype,
                     double divisor, std::span<std::byte> out);

}  // namespace zerolab::cuda
