#pragma once

#include <cstdint>

#include "framework/onednn/vector.h"

namespace zerolab::onednn {

/// A matrix whose element (i, k) is at data[i * row_stride + k * depth_stride].
struct StridedMatrix {
  const float* data;
  int64_t row_stride;
  int64_t depth_stride;
};

/// `kRows` rows of the product below, held in registers.
template <int kRows, int kVectors>
void multiply_block(const StridedMatrix& a, int64_t depth, const Vector* b, Vector* out,
                    int64_t stride, bool accumulate) {
  Vector sums[kRows][kVectors] = {};
  if (accumulate) {
    for (int i = 0; i < kRows; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = out[i * stride + v];
      }
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    for (int i = 0; i < kRows; ++i) {
      const Vector factor = broadcast(a.data[i * a.row_stride + k * a.depth_stride]);
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] = multiply_add(factor, b[k * stride + v], sums[i][v]);
      }
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int v = 0; v < kVectors; ++v) {
      out[i * stride + v] = sums[i][v];
    }
  }
}

template <int kVectors>
void multiply_columns(StridedMatrix a, int64_t rows, int64_t depth, const Vector* b, Vector* out,
                      int64_t stride, bool accumulate) {
  constexpr int kRows = 4;
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    multiply_block<kRows, kVectors>(a, depth, b, out, stride, accumulate);
    a.data += kRows * a.row_stride;
    out += kRows * stride;
  }
  for (; i < rows; ++i) {
    multiply_block<1, kVectors>(a, depth, b, out, stride, accumulate);
    a.data += a.row_stride;
    out += stride;
  }
}

/// out [rows, vectors] (+)= a [rows, depth] · b [depth, vectors]; rows of b and out are `stride`
/// vectors apart. For operands that are in the caches.
inline void multiply_small(const StridedMatrix& a, int64_t rows, int64_t depth, const Vector* b,
                           Vector* out, int64_t stride, int64_t vectors, bool accumulate) {
  for (; vectors >= 4; vectors -= 4, b += 4, out += 4) {
    multiply_columns<4>(a, rows, depth, b, out, stride, accumulate);
  }
  if (vectors == 3) {
    multiply_columns<3>(a, rows, depth, b, out, stride, accumulate);
  } else if (vectors == 2) {
    multiply_columns<2>(a, rows, depth, b, out, stride, accumulate);
  } else if (vectors == 1) {
    multiply_columns<1>(a, rows, depth, b, out, stride, accumulate);
  }
}

}  // namespace zerolab::onednn
