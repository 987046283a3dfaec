#pragma once

#include <cuda_runtime.h>

#include <tuple>

#include "cuda_sim/device_functions.h"
#include "cuda_sim/simulator.h"
#include "framework/cuda/check.h"

namespace zerolab::cuda {

/// framework/cuda/launch.h's, on the simulated device: the kernel is queued on `stream`, with its
/// arguments copied. As there, throws what the launch itself reports.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  check(cuda_sim::launch({reinterpret_cast<const void*>(kernel), grid, block, shared_bytes}, stream,
                         [kernel, values] { std::apply(kernel, values); }),
        "launching a kernel");
}

/// The block's dynamic shared memory, 16-byte aligned; NaN when the block starts.
template <typename T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(cuda_sim::dynamic_shared_memory());
}

}  // namespace zerolab::cuda
