#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <source_location>

#include "cuda_sim/block.h"

/// What kernels may use: CUDA's qualifiers, built-in variables and device functions, on the host.

#undef __shared__
#define __shared__ static thread_local
#ifndef __launch_bounds__
#define __launch_bounds__(...)
#endif

inline constinit thread_local uint3 threadIdx{};
inline constinit thread_local uint3 blockIdx{};
inline constinit thread_local dim3 blockDim{};
inline constinit thread_local dim3 gridDim{};
inline constexpr int warpSize = zerolab::cuda_sim::kWarpSize;

inline void __syncthreads(std::source_location place = std::source_location::current()) {
  zerolab::cuda_sim::barrier(place);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu,
                       std::source_location place = std::source_location::current()) {
  zerolab::cuda_sim::shuffle(mask, zerolab::cuda_sim::lane(), nullptr, nullptr, 0, place);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              std::source_location place = std::source_location::current()) {
  const int segment = zerolab::cuda_sim::lane() & ~(width - 1);
  T result;
  zerolab::cuda_sim::shuffle(mask, segment + (source & (width - 1)), &value, &result, sizeof(T),
                             place);
  return result;
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  std::source_location place = std::source_location::current()) {
  const int lane = zerolab::cuda_sim::lane();
  const int source = lane ^ lane_mask;
  T result;
  zerolab::cuda_sim::shuffle(mask, source > (lane | (width - 1)) ? lane : source, &value, &result,
                             sizeof(T), place);
  return result;
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   std::source_location place = std::source_location::current()) {
  const int lane = zerolab::cuda_sim::lane();
  const int source = lane + static_cast<int>(delta);
  T result;
  zerolab::cuda_sim::shuffle(mask, source > (lane | (width - 1)) ? lane : source, &value, &result,
                             sizeof(T), place);
  return result;
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 std::source_location place = std::source_location::current()) {
  const int lane = zerolab::cuda_sim::lane();
  const int source = lane - static_cast<int>(delta);
  T result;
  zerolab::cuda_sim::shuffle(mask, source < (lane & ~(width - 1)) ? lane : source, &value, &result,
                             sizeof(T), place);
  return result;
}

// One kernel thread runs at a time, so that atomic operations are plain ones.
template <typename T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}
template <typename T>
T atomicMin(T* address, T value) {
  const T old = *address;
  *address = std::min(old, value);
  return old;
}
template <typename T>
T atomicMax(T* address, T value) {
  const T old = *address;
  *address = std::max(old, value);
  return old;
}
template <typename T>
T atomicCAS(T* address, T compare, T value) {
  const T old = *address;
  *address = old == compare ? value : old;
  return old;
}
inline void __threadfence() {}

// Arithmetic. Intrinsics that round as IEEE are the plain operators: the host contracts nothing.
using std::max;
using std::min;
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} * b) >> 32);
}
template <typename T>
T __ldg(const T* address) {
  return *address;
}
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
