#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "framework/cuda/check.h"

#ifdef __CUDACC__

namespace zerolab::cuda {

/// Launches `kernel` on `stream`, with `shared_bytes` of dynamic shared memory a block; throws what
/// the launch itself reports. The one place where a kernel is launched: tests replace it by a
/// simulator of the device.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check(cudaGetLastError(), "launching a kernel");
}

/// The block's dynamic shared memory, 16-byte aligned.
template <typename T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
}

}  // namespace zerolab::cuda

#else
#include "cuda_sim/launch.h"  // tests/cuda_sim: the same names, on the host
#endif
