#pragma once

#include <cuda_runtime.h>

#include <string_view>

#include "framework/core/error.h"

namespace zerolab::cuda {

/// Throws `Error` unless a call of the runtime succeeded; `what` is what was tried.
inline void check(cudaError_t status, std::string_view what) {
  require(status == cudaSuccess, "cuda", "{} failed: {} ({})", what, cudaGetErrorString(status),
          cudaGetErrorName(status));
}

}  // namespace zerolab::cuda
