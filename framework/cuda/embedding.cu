#include "framework/cuda/check.h"
#include "framework/cuda/cuda_backend.h"
#include "framework/cuda/kernel.h"

namespace zerolab {
namespace {

/// out[i] = table[indices[i / cols], i mod cols], or 0 for an index outside; where N > 1, N divides
/// the columns.
template <typename T>
struct Gather {
  const int32_t* indices;
  const T* table;
  T* out;
  int64_t cols;
  cuda::IndexCheck check;

  template <int N>
  __device__ void run(int64_t i) const {
    const int64_t at = i / cols;
    const int64_t row = indices[at];
    cuda::Pack<T, N> pack = {};
    if (check.accepts(row)) {
      pack = cuda::load_pack<N>(table + row * cols + (i - at * cols));
    }
    cuda::store_pack(out + i, pack);
  }
};

constexpr int kColumns = 4;  ///< of a thread

/// One block per index, and one in y per `kColumns * kThreads` columns. The block whose index is
/// the first to name its row adds up all that do, in their order, so that no two write a row.
template <typename T, typename Out>
__global__ void embedding_backward_kernel(const int32_t* indices, int64_t count, const T* dy,
                                          int64_t cols, Out* dtable, bool accumulate,
                                          int64_t vocabulary) {
  constexpr int kWarps = cuda::kThreads / cuda::kWarp;
  __shared__ unsigned named_by[kWarps];  // a bit for each index of a warp that names the row
  const int64_t first = blockIdx.x;
  const int64_t row = indices[first];
  if (row < 0 || row >= vocabulary) {
    return;  // the forward has told
  }
  int named_before = 0;
  for (int64_t i = threadIdx.x; i < first; i += cuda::kThreads) {
    named_before |= indices[i] == row ? 1 : 0;
  }
  if (cuda::block_max(named_before) != 0) {
    return;
  }

  const int64_t first_col =
      static_cast<int64_t>(blockIdx.y) * kColumns * cuda::kThreads + threadIdx.x;
  Out* const out = dtable + row * cols;
  float sums[kColumns] = {};
  for (int c = 0; c < kColumns; ++c) {
    const int64_t col = first_col + c * cuda::kThreads;
    if (accumulate && col < cols) {
      sums[c] = cuda::load(out[col]);
    }
  }
  for (int64_t begin = first; begin < count; begin += cuda::kThreads) {
    const int64_t i = begin + threadIdx.x;
    const int lane = threadIdx.x % cuda::kWarp;
    const unsigned bit = i < count && indices[i] == row ? 1U << lane : 0U;
    const unsigned bits = cuda::warp_sum(bit);
    if (lane == 0) {
      named_by[threadIdx.x / cuda::kWarp] = bits;
    }
    __syncthreads();
    for (int warp = 0; warp < kWarps; ++warp) {
      int64_t named = begin + warp * cuda::kWarp;
      for (unsigned left = named_by[warp]; left != 0; left >>= 1, ++named) {
        for (int c = 0; c < kColumns && (left & 1U) != 0; ++c) {
          const int64_t col = first_col + c * cuda::kThreads;
          if (col < cols) {
            sums[c] += cuda::load(dy[named * cols + col]);
          }
        }
      }
    }
    __syncthreads();  // all have read the bits
  }
  for (int c = 0; c < kColumns; ++c) {
    const int64_t col = first_col + c * cuda::kThreads;
    if (col < cols) {
      cuda::store(out[col], sums[c]);
    }
  }
}

}  // namespace

void CudaBackend::embedding_forward(Stream& stream, const Tensor& indices, const Tensor& table,
                                    const Tensor& out) {
  cuda::with_device_type(out.dtype(), [&]<typename T>(T) {
    constexpr int kLanes = cuda::kLanes<T>;
    const Gather<T> body{indices.data<int32_t>(),
                         table.data<T>(),
                         out.data<T>(),
                         table.shape()[1],
                         {static_cast<cuda::CudaStream&>(stream).fault(), "embedding",
                          "an index is outside the table", table.shape()[0]}};
    cuda::for_packs<kLanes>(cuda::handle_of(stream), out.numel(),
                            cuda::are_aligned(body.table, body.out) && body.cols % kLanes == 0,
                            body);
  });
}

void CudaBackend::embedding_backward(Stream& stream, const Tensor& indices, const Tensor& dy,
                                     const Tensor& dtable, bool accumulate) {
  if (!accumulate && dtable.numel() > 0) {
    cuda::check(cudaMemsetAsync(dtable.raw(), 0, dtable.bytes(), cuda::handle_of(stream)),
                "zeroing a gradient");
  }
  if (dy.numel() == 0) {
    return;
  }
  cuda::with_device_types(dy.dtype(), dtable.dtype(), [&]<typename T, typename Out>(T, Out) {
    const int64_t cols = dtable.shape()[1];
    const int64_t columns = int64_t{kColumns} * cuda::kThreads;
    const dim3 grid(static_cast<unsigned>(indices.numel()),
                    static_cast<unsigned>((cols + columns - 1) / columns));
    cuda::launch(embedding_backward_kernel<T, Out>, grid, dim3(cuda::kThreads), 0,
                 cuda::handle_of(stream), indices.data<int32_t>(), indices.numel(), dy.data<T>(),
                 cols, dtable.data<Out>(), accumulate, dtable.shape()[0]);
  });
}

}  // namespace zerolab
