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

constexpr int kRows = 8;        ///< of the table, that a block owns
constexpr int kColumns = 4;     ///< of them, that a thread owns
constexpr int kPerThread = 16;  ///< indices that a thread looks through at a time
constexpr int kBatch = 8;       ///< rows of dy that are read together

/// One block per `kRows` rows of the table, and one in y per `kColumns * kThreads` columns: it goes
/// through all indices for those that name its rows, and adds them up in their order.
template <typename T, typename Out>
__global__ void embedding_backward_kernel(const int32_t* indices, int64_t count, const T* dy,
                                          int64_t cols, Out* dtable, bool accumulate,
                                          int64_t vocabulary) {
  constexpr int kChunk = cuda::kThreads * kPerThread;
  __shared__ float sums[kRows][kColumns * cuda::kThreads];
  __shared__ int found_by[cuda::kThreads];
  __shared__ uint16_t found[kChunk];  // of a chunk's indices, in their order
  static_assert(kChunk <= 1 << 16);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kRows;
  const int64_t first_col = static_cast<int64_t>(blockIdx.y) * kColumns * cuda::kThreads;
  const auto is_own = [&](int64_t row) { return row >= first_row && row < first_row + kRows; };
  /// Calls `body(sum, out)` for each of the thread's sums and its element of the table.
  const auto for_sums = [&](auto&& body) {
    for (int row = 0; row < kRows; ++row) {
      for (int c = thread; c < kColumns * cuda::kThreads; c += cuda::kThreads) {
        if (first_row + row < vocabulary && first_col + c < cols) {
          body(sums[row][c], dtable[(first_row + row) * cols + first_col + c]);
        }
      }
    }
  };
  for_sums([&](float& sum, const Out& out) { sum = accumulate ? cuda::load(out) : 0.0F; });
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t left = count - begin;
    const int first = thread * kPerThread;
    const int last = static_cast<int>(first + kPerThread < left ? first + kPerThread : left);
    int own = 0;
    for (int i = first; i < last; ++i) {
      own += is_own(indices[begin + i]) ? 1 : 0;
    }
    // All threads are done with the chunk before when this has its result.
    if (cuda::block_max(own) == 0) {
      continue;
    }
    found_by[thread] = own;
    __syncthreads();
    int before = 0;
    int total = 0;
    for (int other = 0; other < cuda::kThreads; ++other) {
      before += other < thread ? found_by[other] : 0;
      total += found_by[other];
    }
    for (int i = first; i < last; ++i) {
      if (is_own(indices[begin + i])) {
        found[before++] = static_cast<uint16_t>(i);
      }
    }
    __syncthreads();
    for (int batch = 0; batch < total; batch += kBatch) {
      const int size = total - batch < kBatch ? total - batch : kBatch;
      for (int c = thread; c < kColumns * cuda::kThreads && first_col + c < cols;
           c += cuda::kThreads) {
        float added[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
          added[k] =
              k < size ? cuda::load(dy[(begin + found[batch + k]) * cols + first_col + c]) : 0.0F;
        }
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
          if (k < size) {
            sums[indices[begin + found[batch + k]] - first_row][c] += added[k];
          }
        }
      }
    }
  }
  for_sums([](float sum, Out& out) { cuda::store(out, sum); });
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
  if (dtable.numel() == 0) {
    return;
  }
  cuda::with_device_types(dy.dtype(), dtable.dtype(), [&]<typename T, typename Out>(T, Out) {
    const int64_t cols = dtable.shape()[1];
    const int64_t columns = int64_t{kColumns} * cuda::kThreads;
    const dim3 grid(static_cast<unsigned>((dtable.shape()[0] + kRows - 1) / kRows),
                    static_cast<unsigned>((cols + columns - 1) / columns));
    cuda::launch(embedding_backward_kernel<T, Out>, grid, dim3(cuda::kThreads), 0,
                 cuda::handle_of(stream), indices.data<int32_t>(), indices.numel(), dy.data<T>(),
                 cols, dtable.data<Out>(), accumulate, dtable.shape()[0]);
  });
}

}  // namespace zerolab
