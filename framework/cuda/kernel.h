#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "framework/cuda/cuda_stream.h"
#include "framework/cuda/launch.h"

// The parts that kernels are made of. Like the CPU's, they are compiled without contraction of
// a*b+c (nvcc -fmad=false): an element's bits must not depend on whether it fell into a vector or
// into the tail. A kernel that wants a fused multiply-add says `fmaf`.

namespace zerolab::cuda {

// --- elements: float, __nv_bfloat16, __half ---

template <typename T>
concept Element =
    std::same_as<T, float> || std::same_as<T, __nv_bfloat16> || std::same_as<T, __half>;

/// Calls `body` with a value of the device's type of `dtype`; throws for what kernels cannot
/// compute in.
template <typename Body>
void with_device_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kBFloat16:
      return body(__nv_bfloat16{});
    case DType::kFloat16:
      return body(__half{});
    default:
      fail("cuda", "the cuda backend computes in fp32, bf16 and fp16; got {}", name_of(dtype));
  }
}

/// The same for two dtypes.
template <typename Body>
void with_device_types(DType first, DType second, Body&& body) {
  with_device_type(first, [&]<typename T>(T) {
    with_device_type(second, [&]<typename U>(U) { body(T{}, U{}); });
  });
}

/// An element as a number to compute with; exact. Here and below a NaN keeps its sign and upper
/// bits, as on the host (core/half.h).
__device__ inline float load(float element) { return element; }
__device__ inline float load(__nv_bfloat16 element) { return __bfloat162float(element); }
__device__ inline float load(__half element) {
  const float number = __half2float(element);
  const unsigned bits = __half_as_ushort(element);
  return number == number
             ? number
             : __uint_as_float((bits & 0x8000U) << 16 | 0x7FC00000U | (bits & 0x3FFU) << 13);
}

/// A number as an element, rounded once: to nearest, ties to even.
__device__ inline void store(float& out, float number) { out = number; }
__device__ inline void store(__nv_bfloat16& out, float number) {
  const unsigned bits = __float_as_uint(number);
  out = number == number ? __float2bfloat16_rn(number)
                         : __ushort_as_bfloat16(static_cast<uint16_t>(bits >> 16 | 0x40U));
}
__device__ inline void store(__half& out, float number) {
  const unsigned bits = __float_as_uint(number);
  out = number == number ? __float2half_rn(number)
                         : __ushort_as_half(static_cast<uint16_t>((bits >> 16 & 0x8000U) | 0x7E00U |
                                                                  (bits >> 13 & 0x3FFU)));
}
/// out = number, or out += number, rounded once.
template <Element T>
__device__ void store(T& out, float number, bool accumulate) {
  store(out, accumulate ? load(out) + number : number);
}

// --- 16-byte accesses ---

/// N neighbouring elements, read and written together.
template <typename T, int N>
struct alignas(std::min<int>(16, N * sizeof(T))) Pack {
  T lanes[N];
};

/// Elements of a pack when tensors of these types are walked together: 16 bytes of the narrowest.
template <typename... T>
inline constexpr int kLanes = 16 / std::min({sizeof(T)...});

template <int N, typename T>
__device__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <int N, typename T>
__device__ void store_pack(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Whether packs can start at each of these addresses (a null pointer is none).
template <typename... T>
bool are_aligned(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// --- grids ---

inline constexpr int kThreads = 256;  ///< of a block, unless a kernel says otherwise
inline constexpr int64_t kMaxBlocks = 8192;

/// Blocks for `items` threads in a grid-stride loop; at least 1.
inline dim3 grid_for(int64_t items, int threads = kThreads) {
  return dim3(
      static_cast<unsigned>(std::clamp<int64_t>((items + threads - 1) / threads, 1, kMaxBlocks)));
}

/// The thread's first item in a grid-stride loop, and the step to the next.
__device__ inline int64_t first_item() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t item_stride() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

template <int N, typename Body>
__global__ void for_packs_kernel(int64_t packs, int64_t numel, Body body) {
  for (int64_t i = first_item(); i < packs; i += item_stride()) {
    body.template run<N>(i * N);
  }
  for (int64_t i = packs * N + first_item(); i < numel; i += item_stride()) {
    body.template run<1>(i);
  }
}

/// Puts `body` on `stream` for all of [0, numel): `run<N>(i)` for the N elements from i, or where
/// the tensors are not `aligned` and in the tail `run<1>(i)`. `body` is copied to the device.
template <int N, typename Body>
void for_packs(cudaStream_t stream, int64_t numel, bool aligned, const Body& body) {
  if (numel == 0) {
    return;
  }
  const int64_t packs = aligned ? numel / N : 0;
  const int64_t items = std::max(packs, numel - packs * N);
  launch(for_packs_kernel<N, Body>, grid_for(items), dim3(kThreads), 0, stream, packs, numel, body);
}

// --- faults of the input ---

/// Asks of every index whether it lies within [0, limit). The text is of static storage; the device
/// passes it on and never reads it.
struct IndexCheck {
  Fault* fault;  ///< CudaStream::fault()
  const char* component;
  const char* what;
  int64_t limit;

  /// False for an index outside, which the kernel then leaves out: the stream's later waits throw.
  __device__ bool accepts(int64_t index) const {
    if (index >= 0 && index < limit) {
      return true;
    }
    if (atomicAdd(&fault->count, 1U) == 0) {
      fault->component = component;
      fault->what = what;
      fault->got = index;
      fault->limit = limit;
    }
    return false;
  }
};

// --- reductions, in an order that depends on nothing but the block's size ---

inline constexpr int kWarp = 32;
inline constexpr unsigned kFullMask = 0xFFFFFFFFU;

/// The sum over the warp, in every lane.
template <typename Number>
__device__ Number warp_sum(Number value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kFullMask, value, distance);
  }
  return value;
}
template <typename Number>
__device__ Number warp_max(Number value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Number other = __shfl_xor_sync(kFullMask, value, distance);
    value = value < other ? other : value;
  }
  return value;
}

/// The sum over the block, in every thread. All threads call it; there are whole warps of them, in
/// one dimension.
template <typename Number>
__device__ Number block_sum(Number value) {
  __shared__ Number of_warp[kWarp];
  value = warp_sum(value);
  __syncthreads();  // the previous call's values have been read
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) {
    value += of_warp[warp];
  }
  return value;
}
template <typename Number>
__device__ Number block_max(Number value) {
  __shared__ Number of_warp[kWarp];
  value = warp_max(value);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = value;
  }
  __syncthreads();
  value = of_warp[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) {
    value = value < of_warp[warp] ? of_warp[warp] : value;
  }
  return value;
}

/// Of a row: its largest number, and the sum of e^(number - largest).
struct RowExponentials {
  float largest;
  float sum;
};

/// In every thread of a block that has the row to itself and calls this as a whole. Which elements
/// a thread adds depends on their columns alone. `cols` is positive.
template <typename T>
__device__ RowExponentials row_exponentials(const T* row, int64_t cols) {
  float largest = load(row[0]);
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    const float number = load(row[j]);
    largest = largest < number ? number : largest;
  }
  largest = block_max(largest);
  float sum = 0.0F;
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    sum += expf(load(row[j]) - largest);
  }
  return {largest, block_sum(sum)};
}

}  // namespace zerolab::cuda
