#pragma once

#include <compare>
#include <cstdint>

#include "framework/kernels/attention_mask.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

/// One call of an attention kernel, by what its workspace can depend on.
struct AttentionCall {
  enum class Pass : uint8_t { kForward, kBackward };
  Pass pass;
  int64_t samples;    ///< B
  int64_t positions;  ///< T
  int64_t heads;
  int64_t head_size;
  AttentionMask mask;
  DType dtype;
  bool accumulate;

  static AttentionCall forward(const Tensor& qkv, int64_t num_heads, AttentionMask mask) {
    return of(Pass::kForward, qkv, num_heads, mask, false);
  }
  static AttentionCall backward(const Tensor& qkv, int64_t num_heads, AttentionMask mask,
                                bool accumulate) {
    return of(Pass::kBackward, qkv, num_heads, mask, accumulate);
  }
  bool is_empty() const { return samples * positions * heads * head_size == 0; }

  auto operator<=>(const AttentionCall&) const = default;

 private:
  static AttentionCall of(Pass pass, const Tensor& qkv, int64_t num_heads, AttentionMask mask,
                          bool accumulate) {
    const Shape& shape = qkv.shape();
    return {pass, shape[0],    shape[1],  num_heads, shape[2] / (3 * num_heads),
            mask, qkv.dtype(), accumulate};
  }
};

}  // namespace zerolab
