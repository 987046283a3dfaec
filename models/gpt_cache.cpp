#include "models/gpt_cache.h"

#include "framework/core/error.h"
#include "framework/ops/attention.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

GptCache::GptCache(RankContext& context, const GptConfig& config, DType dtype) {
  for (int64_t layer = 0; layer < config.n_layer; ++layer) {
    layers_.push_back(Tensor::empty(context, Shape{config.block_size, 3 * config.n_embd}, dtype));
  }
}

Tensor GptCache::attend(int64_t layer, const Tensor& qkv, int64_t num_heads) {
  const Shape& shape = qkv.shape();
  require(shape[0] == 1 && (length_ == 0 || shape[1] == 1), "gpt",
          "a cache takes one sequence, and after its beginning one position at a time; got {} "
          "sequences of {} positions behind {}",
          shape[0], shape[1], length_);
  const Tensor& rows = layers_[layer];
  RankContext& context = qkv.context();
  context.backend().copy(context.compute(), qkv, rows.range(length_ * shape.cols(), qkv.numel()));
  if (length_ == 0) {
    return ops::causal_attention(qkv, num_heads);
  }
  const int64_t positions = length_ + 1;
  return ops::causal_attention_of_last(
      rows.range(0, positions * shape.cols()).view({1, positions, shape.cols()}), num_heads);
}

}  // namespace zerolab
