#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// Self-attention with `num_heads` heads. qkv [B, T, 3C] holds queries, keys and values side by
/// side; the result is [B, T, C]. Causal: a position sees those up to itself; full: it sees all.
Tensor causal_attention(const Tensor& qkv, int64_t num_heads);
Tensor full_attention(const Tensor& qkv, int64_t num_heads);

/// The last position's result alone, [B, 1, C]: of the positions before, generating needs the keys
/// and values only. Has no gradient: throws where one would be recorded.
Tensor causal_attention_of_last(const Tensor& qkv, int64_t num_heads);

}  // namespace zerolab::ops
