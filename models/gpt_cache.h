#pragma once

#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"
#include "models/gpt.h"

namespace zerolab {

/// Spares a Gpt computing one growing sequence again: in each layer it keeps the positions'
/// queries, keys and values as attention takes them. (The queries are not needed; with them the
/// rows are what every attention kernel reads.)
class GptCache {
 public:
  /// Holds up to `config.block_size` positions: 3 · n_embd elements of `dtype` a layer and
  /// position.
  GptCache(RankContext& context, const GptConfig& config, DType dtype);

  /// Positions that it holds.
  int64_t length() const { return length_; }
  void clear() { length_ = 0; }

  /// Attention [1, T, C] of the T new positions of qkv [1, T, 3C], which are appended to those
  /// there. T is 1 unless it is empty.
  Tensor attend(int64_t layer, const Tensor& qkv, int64_t num_heads);
  /// Every layer has attended to `count` new positions.
  void advance(int64_t count) { length_ += count; }

 private:
  std::vector<Tensor> layers_;  ///< [block_size, 3C] each
  int64_t length_ = 0;
};

}  // namespace zerolab
