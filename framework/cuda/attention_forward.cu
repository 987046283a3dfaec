#include "framework/cuda/attention_tiles.h"
#include "framework/cuda/cuda_backend.h"

namespace zerolab {
namespace cuda {
namespace {

template <int kPer, int kQuads, Element T>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const T* qkv, Heads heads, T* out, float* log_sum_exp) {
  constexpr int kTile = kSide * kPer;
  const int pitch = heads.pitch();
  float* queries = dynamic_shared<float>();
  float* keys = queries + kTile * pitch;
  float* values = keys + kTile * pitch;
  float* weights = values + kTile * pitch;
  const int64_t stride = 3 * heads.C;
  const int64_t begin = static_cast<int64_t>(gridDim.y - 1 - blockIdx.y) * kTile;  // longest first
  const int64_t count = heads.T - begin;
  qkv += heads.query();
  load_rows(qkv + begin * stride, stride, count, kTile, heads, queries);
  RowSums<kPer, kQuads> sums;
  float largest[kPer];
  float total[kPer];
  for (int i = 0; i < kPer; ++i) {
    largest[i] = kLowest;
    total[i] = 0.0F;
  }
  for (int64_t key = 0; key < heads.end_of_keys(begin); key += kTile) {
    __syncthreads();  // the previous tile has been used
    const T* source = qkv + key * stride + heads.C;
    load_rows(source, stride, heads.T - key, kTile, heads, keys);
    load_rows(source + heads.C, stride, heads.T - key, kTile, heads, values);
    __syncthreads();
    float scores[kPer][kPer];
    multiply_rows(queries, keys, pitch, scores);
    for (int i = 0; i < kPer; ++i) {
      const int row = own_row() * kPer + i;
      float new_largest = largest[i];
      for (int j = 0; j < kPer; ++j) {
        const bool seen = heads.sees(begin + row, key + own_column() + j * kSide);
        scores[i][j] = seen ? heads.scale * scores[i][j] : kLowest;
        new_largest = fmaxf(new_largest, scores[i][j]);
      }
      new_largest = row_max(new_largest);
      float added = 0.0F;
      for (int j = 0; j < kPer; ++j) {
        const float weight = expf(scores[i][j] - new_largest);
        weights[row * (kTile + kPad) + own_column() + j * kSide] = weight;
        added += weight;
      }
      const float shrink = expf(largest[i] - new_largest);
      total[i] = total[i] * shrink + row_sum(added);
      sums.scale_row(i, shrink);
      largest[i] = new_largest;
    }
    __syncthreads();
    sums.add_product(weights, values, heads);
  }
  for (int i = 0; i < kPer; ++i) {
    const int row = own_row() * kPer + i;
    sums.scale_row(i, 1.0F / total[i]);
    if (own_column() == 0 && row < count) {
      log_sum_exp[heads.row() + begin + row] = largest[i] + logf(total[i]);
    }
  }
  sums.store_rows(out + heads.out() + begin * heads.C, heads.C, count, heads, false);
}

}  // namespace
}  // namespace cuda

int64_t CudaBackend::attention_workspace(const AttentionCall& call) const {
  if (cudnn_attention_ == nullptr || call.is_empty()) {
    return 0;
  }
  return cudnn_attention_->workspace_bytes(call) +
         (call.accumulate ? cuda::attention_gradient_bytes(call) : 0);
}

void CudaBackend::attention_forward(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                    AttentionMask mask, const Tensor& out,
                                    const Tensor& log_sum_exp) {
  const AttentionCall call = AttentionCall::forward(qkv, num_heads, mask);
  if (cudnn_attention_ != nullptr && !call.is_empty()) {
    const Tensor workspace = Tensor::workspace(out.context(), attention_workspace(call));
    cudnn_attention_->launch(cuda::handle_of(stream), call,
                             {.qkv = qkv.raw(), .out = out.raw(), .log_sum_exp = log_sum_exp.raw()},
                             workspace.raw());
    return;
  }
  const cuda::Heads heads(qkv, num_heads, mask);
  cuda::with_tiles(heads, qkv.dtype(), [&]<typename T, int kPer, int kQuads>() {
    cuda::launch_tiles<kPer>(stream, heads, 3, 0, cuda::forward_kernel<kPer, kQuads, T>,
                             qkv.data<T>(), heads, out.data<T>(), log_sum_exp.data<float>());
  });
}

}  // namespace zerolab
