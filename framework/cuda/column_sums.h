#pragma once

#include "framework/cuda/kernel.h"

namespace zerolab::cuda {

inline constexpr int kSumRows = 64;

inline constexpr int64_t kSegmentRows = 1024;

/// Bytes of workspace that `sum_columns` takes.
inline int64_t sum_columns_workspace(int64_t rows, int64_t cols) {
  const int64_t segments = (rows + kSegmentRows - 1) / kSegmentRows;
  return segments > 1 ? segments * cols * static_cast<int64_t>(sizeof(float)) : 0;
}

/// A block has kColumns columns of a segment of `segment_rows` rows, and kRows rows at a time. The
/// segments' sums become rows of `out`.
template <int kRows, int kColumns, typename Term, Element Out>
__global__ void sum_columns_kernel(Term term, int64_t rows, int64_t segment_rows, int64_t cols,
                                   Out* out, bool accumulate) {
  __shared__ float sums[kRows][kColumns];
  const int column = threadIdx.x % kColumns;
  const int row = threadIdx.x / kColumns;
  const int64_t j = static_cast<int64_t>(blockIdx.x) * kColumns + column;
  const int64_t begin = blockIdx.y * segment_rows;
  const int64_t end = begin + segment_rows < rows ? begin + segment_rows : rows;
  float sum = 0.0F;
  if (j < cols) {
#pragma unroll 8
    for (int64_t i = begin + row; i < end; i += kRows) {
      sum += term(i, j);
    }
  }
  sums[row][column] = sum;
  __syncthreads();
  if (row == 0 && j < cols) {
    for (int other = 1; other < kRows; ++other) {
      sum += sums[other][column];
    }
    store(out[blockIdx.y * cols + j], sum, accumulate);
  }
}

template <typename Term, Element Out>
void launch_sum_columns(Stream& stream, const Term& term, int64_t rows, int64_t segment_rows,
                        int64_t cols, Out* out, bool accumulate) {
  const auto launch_with = [&]<int kRows, int kColumns>() {
    const int64_t segments = std::max<int64_t>((rows + segment_rows - 1) / segment_rows, 1);
    launch(sum_columns_kernel<kRows, kColumns, Term, Out>,
           dim3(static_cast<unsigned>((cols + kColumns - 1) / kColumns),
                static_cast<unsigned>(segments)),
           dim3(kRows * kColumns), 0, handle_of(stream), term, rows, segment_rows, cols, out,
           accumulate);
  };
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

/// out[j] (+)= the sum over rows i of `term(i, j)`, in one order whatever the device: rows of a
/// segment that are kSumRows apart are added top down, then those sums in the order of their first
/// rows; then the segments' sums in the same way. Up to kSumRows rows that is row order, for which
/// a thread a column does. `workspace` has `sum_columns_workspace` bytes.
template <typename Term, Element Out>
void sum_columns(Stream& stream, const Term& term, int64_t rows, int64_t cols, Out* out,
                 bool accumulate, float* workspace) {
  if (cols == 0) {
    return;
  }
  if (rows <= kSegmentRows) {
    launch_sum_columns(stream, term, rows, kSegmentRows, cols, out, accumulate);
    return;
  }
  const int64_t segments = (rows + kSegmentRows - 1) / kSegmentRows;
  launch_sum_columns(stream, term, rows, kSegmentRows, cols, workspace, false);
  launch_sum_columns(stream, Elements<float>{workspace, cols}, segments, segments, cols, out,
                     accumulate);
}

}  // namespace zerolab::cuda
