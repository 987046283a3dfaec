#pragma once

#include "framework/cuda/kernel.h"

namespace zerolab::cuda {

inline constexpr int kSumRows = 64;

/// A block has kColumns columns, and kRows rows at a time.
template <int kRows, int kColumns, typename Term, Element Out>
__global__ void sum_columns_kernel(Term term, int64_t rows, int64_t cols, Out* out,
                                   bool accumulate) {
  __shared__ float sums[kRows][kColumns];
  const int column = threadIdx.x % kColumns;
  const int row = threadIdx.x / kColumns;
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kColumns + column;
  float sum = 0.0F;
  if (j < cols) {
#pragma unroll 8
    for (int64_t i = row; i < rows; i += kRows) {
      sum += term(i, j);
    }
  }
  sums[row][column] = sum;
  __syncthreads();
  if (row == 0 && j < cols) {
    for (int other = 1; other < kRows; ++other) {
      sum += sums[other][column];
    }
    store(out[j], sum, accumulate);
  }
}

/// out[j] (+)= the sum over rows i of `term(i, j)`, in one order whatever the device: rows that are
/// kSumRows apart are added top down, then those sums in the order of their first rows. Up to
/// kSumRows rows that is row order, for which a thread a column does.
template <typename Term, Element Out>
void sum_columns(Stream& stream, const Term& term, int64_t rows, int64_t cols, Out* out,
                 bool accumulate) {
  const auto launch_with = [&]<int kRows, int kColumns>() {
    launch(sum_columns_kernel<kRows, kColumns, Term, Out>,
           dim3(static_cast<unsigned>((cols + kColumns - 1) / kColumns)), dim3(kRows * kColumns), 0,
           handle_of(stream), term, rows, cols, out, accumulate);
  };
  if (cols == 0) {
    return;
  }
  if (rows <= kSumRows) {
    launch_with.template operator()<1, kThreads>();
  } else {
    launch_with.template operator()<kSumRows, 16>();  // 16: the 32 bytes that memory gives at once
  }
}

/// Elements as the terms of sums.
template <Element T>
struct Elements {
  __device__ float operator()(int64_t i, int64_t j) const { return load(x[i * cols + j]); }

  const T* x;
  int64_t cols;
};

}  // namespace zerolab::cuda
