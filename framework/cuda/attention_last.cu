#include "framework/cuda/attention_tiles.h"
#include "framework/cuda/cuda_backend.h"

namespace zerolab {
namespace cuda {
namespace {

/// The last query of one head: the block's warps take the keys in turn, each with a softmax of its
/// own, which are merged at the end.
template <Element T>
__global__ void __launch_bounds__(kThreads) last_kernel(const T* qkv, Heads heads, T* out) {
  constexpr int kWarps = kThreads / kWarp;
  constexpr int kPer = kLargestHead / kWarp;
  __shared__ float sums_of[kWarps][kLargestHead];
  __shared__ float largest_of[kWarps];
  __shared__ float total_of[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t stride = 3 * heads.C;
  qkv += heads.query();
  float query[kPer];
  float sums[kPer];
  for (int i = 0; i < kPer; ++i) {
    const int d = lane + i * kWarp;
    query[i] = d < heads.D ? heads.scale * load(qkv[(heads.T - 1) * stride + d]) : 0.0F;
    sums[i] = 0.0F;
  }
  float largest = kLowest;
  float total = 0.0F;
  for (int64_t t = warp; t < heads.T; t += kWarps) {
    const T* key = qkv + t * stride + heads.C;
    float score = 0.0F;
    for (int i = 0; i < kPer; ++i) {
      const int d = lane + i * kWarp;
      score = d < heads.D ? fmaf(query[i], load(key[d]), score) : score;
    }
    score = warp_sum(score);
    const float new_largest = fmaxf(largest, score);
    const float weight = expf(score - new_largest);
    const float shrink = expf(largest - new_largest);
    for (int i = 0; i < kPer; ++i) {
      const int d = lane + i * kWarp;
      sums[i] = d < heads.D ? fmaf(weight, load(key[heads.C + d]), sums[i] * shrink) : 0.0F;
    }
    total = total * shrink + weight;
    largest = new_largest;
  }
  for (int i = 0; i < kPer; ++i) {
    sums_of[warp][lane + i * kWarp] = sums[i];
  }
  if (lane == 0) {
    largest_of[warp] = largest;
    total_of[warp] = total;
  }
  __syncthreads();
  const int d = static_cast<int>(threadIdx.x);
  if (d >= heads.D) {
    return;
  }
  largest = kLowest;
  for (const float of_warp : largest_of) {
    largest = fmaxf(largest, of_warp);
  }
  float sum = 0.0F;
  total = 0.0F;
  for (int w = 0; w < kWarps; ++w) {
    const float shrink = expf(largest_of[w] - largest);  // 0 for a warp without keys
    sum = fmaf(shrink, sums_of[w][d], sum);
    total = fmaf(shrink, total_of[w], total);
  }
  store(out[blockIdx.x / heads.H * heads.C + blockIdx.x % heads.H * heads.D + d], sum / total);
}

}  // namespace
}  // namespace cuda

void CudaBackend::attention_last(Stream& stream, const Tensor& qkv, int64_t num_heads,
                                 const Tensor& out) {
  const cuda::Heads heads(qkv, num_heads, AttentionMask::kCausal);
  cuda::with_tiles(heads, qkv.dtype(), [&]<typename T, int, int>() {
    cuda::launch(cuda::last_kernel<T>, dim3(static_cast<unsigned>(heads.B * heads.H)),
                 dim3(cuda::kThreads), 0, cuda::handle_of(stream), qkv.data<T>(), heads,
                 out.data<T>());
  });
}

}  // namespace zerolab
