#pragma once

#include "framework/kernels/dropout_key.h"
#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// a + b, where b has the shape of a or of its last extents and is then added to every leading row.
Tensor add(const Tensor& a, const Tensor& b);
Tensor relu(const Tensor& x);
/// GELU with tanh, as GPT-2's.
Tensor gelu(const Tensor& x);
/// SiLU (Swish): x times its sigmoid.
Tensor silu(const Tensor& x);
/// x with elements dropped and the rest scaled by 1 / (1 - p); x itself when p is zero.
Tensor dropout(const Tensor& x, const DropoutKey& key);

}  // namespace zerolab::ops
