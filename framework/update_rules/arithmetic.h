#pragma once

#include <cmath>

// What update rules are written with beside + - * /. A rule runs on the host, and on the device
// where nvcc compiles it.
#ifdef __CUDACC__
#define ZEROLAB_HOST_DEVICE __host__ __device__
#else
#define ZEROLAB_HOST_DEVICE
#endif

namespace zerolab {

/// The correctly rounded square root: of a float here; a backend that computes in vectors of floats
/// specialises it for them.
template <typename Number>
ZEROLAB_HOST_DEVICE Number square_root(Number x);
template <>
ZEROLAB_HOST_DEVICE inline float square_root(float x) {
  return sqrtf(x);
}

/// 1 above zero, -1 below; zeros and NaN stay what they are.
template <typename Number>
ZEROLAB_HOST_DEVICE Number sign(Number x) {
  const Number one = Number{} + 1.0F;
  return x > 0.0F ? one : (x < 0.0F ? -one : x);
}

}  // namespace zerolab
