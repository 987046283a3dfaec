#include "framework/cuda/attention_tiles.h"
#include "framework/cuda/cuda_backend.h"

namespace zerolab {
namespace cuda {
namespace {

template <Element T>
struct BackwardArguments {
  const T* qkv;
  const T* out;
  const float* log_sum_exp;
  const T* dy;
  T* dqkv;
  bool accumulate;
};

/// A tile of queries from `begin` on: its rows of q, with dy's as their partners, and of each query
/// the mean of the weights' gradients and log_sum_exp.
template <Element T>
__device__ __forceinline__ void load_query_tile(const BackwardArguments<T>& arguments,
                                                const Heads& heads, int64_t begin, int tile,
                                                float* rows, float* partners, float* mean,
                                                float* log_sum_exp) {
  const int64_t stride = 3 * heads.C;
  const int64_t count = heads.T - begin;
  const T* dy = arguments.dy + heads.out() + begin * heads.C;
  const T* out = arguments.out + heads.out() + begin * heads.C;
  load_rows(arguments.qkv + heads.query() + begin * stride, stride, count, tile, heads, rows);
  load_rows(dy, heads.C, count, tile, heads, partners);
  for (int i = threadIdx.x / kWarp; i < tile; i += kThreads / kWarp) {
    // Softmax's gradient subtracts the mean of the weights' gradients, which equals dy · out.
    float sum = 0.0F;
    for (int d = threadIdx.x % kWarp; d < heads.D && i < count; d += kWarp) {
      sum = fmaf(load(dy[i * heads.C + d]), load(out[i * heads.C + d]), sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % kWarp == 0) {
      mean[i] = sum;
      log_sum_exp[i] = i < count ? arguments.log_sum_exp[heads.row() + begin + i] : 0.0F;
    }
  }
}

/// A tile of keys from `begin` on: its rows of k, with v's as their partners.
template <Element T>
__device__ __forceinline__ void load_key_tile(const BackwardArguments<T>& arguments,
                                              const Heads& heads, int64_t begin, int tile,
                                              float* rows, float* partners) {
  const int64_t stride = 3 * heads.C;
  const T* source = arguments.qkv + heads.query() + begin * stride + heads.C;
  load_rows(source, stride, heads.T - begin, tile, heads, rows);
  load_rows(source + heads.C, stride, heads.T - begin, tile, heads, partners);
}

/// From a thread's products q · k (`numbers`) and dy · v (`dscores`): dscores = the gradients of
/// q · k. `weights`, the tile in shared memory, gets the same, or with `kOfKeys` softmax's weights.
/// `own` and `other` are the first positions of the two tiles.
template <bool kOfKeys, int kPer>
__device__ __forceinline__ void differentiate_scores(const Heads& heads, int64_t own, int64_t other,
                                                     const float (&numbers)[kPer][kPer],
                                                     const float* log_sum_exp, const float* mean,
                                                     float (&dscores)[kPer][kPer], float* weights) {
  constexpr int kTile = kSide * kPer;
  for (int i = 0; i < kPer; ++i) {
    for (int j = 0; j < kPer; ++j) {
      const int row = own_row() * kPer + i;
      const int column = own_column() + j * kSide;
      const int query = kOfKeys ? column : row;
      const bool seen =
          kOfKeys ? heads.sees(other + column, own + row) : heads.sees(own + row, other + column);
      // Rows beyond the last query have dy, mean and log_sum_exp 0, and so add nothing.
      const float weight = seen ? expf(heads.scale * numbers[i][j] - log_sum_exp[query]) : 0.0F;
      dscores[i][j] = heads.scale * weight * (dscores[i][j] - mean[query]);
      weights[row * (kTile + kPad) + column] = kOfKeys ? weight : dscores[i][j];
    }
  }
}

/// The gradient of a tile of queries, or with `kOfKeys` of one of keys and of their values.
template <bool kOfKeys, int kPer, int kQuads, Element T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(BackwardArguments<T> arguments, Heads heads) {
  constexpr int kTile = kSide * kPer;
  const int pitch = heads.pitch();
  // Owned and other rows: queries or keys; their partners: dy or values.
  float* own = dynamic_shared<float>();
  float* own_partners = own + kTile * pitch;
  float* others = own_partners + kTile * pitch;
  float* other_partners = others + kTile * pitch;
  float* weights = other_partners + kTile * pitch;
  float* log_sum_exp = weights + kTile * (kTile + kPad);
  float* mean = log_sum_exp + kTile;
  const auto load_queries = [&](int64_t first, float* rows, float* partners) {
    load_query_tile(arguments, heads, first, kTile, rows, partners, mean, log_sum_exp);
  };
  const auto load_keys = [&](int64_t first, float* rows, float* partners) {
    load_key_tile(arguments, heads, first, kTile, rows, partners);
  };
  // The longest first.
  const int64_t begin =
      static_cast<int64_t>(kOfKeys ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * kTile;
  if constexpr (kOfKeys) {
    load_keys(begin, own, own_partners);
  } else {
    load_queries(begin, own, own_partners);
  }
  RowSums<kPer, kQuads> sums;
  RowSums<kPer, kQuads> partner_sums;
  const int64_t first = kOfKeys && heads.causal ? begin : 0;
  const int64_t end = kOfKeys ? heads.T : heads.end_of_keys(begin);
  for (int64_t other = first; other < end; other += kTile) {
    __syncthreads();  // the previous tile has been used
    if constexpr (kOfKeys) {
      load_queries(other, others, other_partners);
    } else {
      load_keys(other, others, other_partners);
    }
    __syncthreads();
    float numbers[kPer][kPer];
    float dscores[kPer][kPer];
    multiply_rows(own, others, pitch, numbers);
    multiply_rows(own_partners, other_partners, pitch, dscores);
    differentiate_scores<kOfKeys>(heads, begin, other, numbers, log_sum_exp, mean, dscores,
                                  weights);
    __syncthreads();
    if constexpr (kOfKeys) {
      partner_sums.add_product(weights, other_partners, heads);
      __syncthreads();
      for (int i = 0; i < kPer; ++i) {
        for (int j = 0; j < kPer; ++j) {
          weights[(own_row() * kPer + i) * (kTile + kPad) + own_column() + j * kSide] =
              dscores[i][j];
        }
      }
      __syncthreads();
    }
    sums.add_product(weights, others, heads);
  }
  const int64_t stride = 3 * heads.C;
  T* dqkv = arguments.dqkv + heads.query() + begin * stride + (kOfKeys ? heads.C : 0);
  sums.store_rows(dqkv, stride, heads.T - begin, heads, arguments.accumulate);
  if constexpr (kOfKeys) {
    partner_sums.store_rows(dqkv + heads.C, stride, heads.T - begin, heads, arguments.accumulate);
  }
}

}  // namespace
}  // namespace cuda

void CudaBackend::attention_backward(Stream& stream, const Tensor& qkv, const Tensor& out,
                                     const Tensor& log_sum_exp, const Tensor& dy, int64_t num_heads,
                                     AttentionMask mask, const Tensor& dqkv, bool accumulate) {
  const AttentionCall call = AttentionCall::backward(qkv, num_heads, mask, accumulate);
  if (cudnn_attention_ != nullptr && !call.is_empty()) {
    // What is to be added is computed in the workspace, rounded, and added by a kernel of its own.
    const Tensor workspace = Tensor::workspace(out.context(), attention_workspace(call));
    const Tensor gradient =
        accumulate ? workspace.reinterpret(qkv.dtype()).range(0, dqkv.numel()) : dqkv;
    cudnn_attention_->launch(
        cuda::handle_of(stream), call,
        {.qkv = qkv.raw(),
         .out = out.raw(),
         .log_sum_exp = log_sum_exp.raw(),
         .dy = dy.raw(),
         .dqkv = gradient.raw()},
        workspace.raw() + (accumulate ? cuda::attention_gradient_bytes(call) : 0));
    if (accumulate) {
      this->accumulate(stream, gradient, dqkv);
    }
    return;
  }
  const cuda::Heads heads(qkv, num_heads, mask);
  cuda::with_tiles(heads, qkv.dtype(), [&]<typename T, int kPer, int kQuads>() {
    const cuda::BackwardArguments<T> arguments = {
        qkv.data<T>(), out.data<T>(),  log_sum_exp.data<float>(),
        dy.data<T>(),  dqkv.data<T>(), accumulate};
    cuda::launch_tiles<kPer>(stream, heads, 4, 2, cuda::backward_kernel<false, kPer, kQuads, T>,
                             arguments, heads);
    cuda::launch_tiles<kPer>(stream, heads, 4, 2, cuda::backward_kernel<true, kPer, kQuads, T>,
                             arguments, heads);
  });
}

}  // namespace zerolab
