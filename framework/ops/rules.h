#pragma once

#include "framework/tensor/tensor.h"

// Gradient rules of ops that are also parts of fused ones. Each makes `out`, which a kernel has
// computed, the result of its op on these inputs, as `autograd::record` does.

namespace zerolab::ops {

Tensor record_add(const Tensor& out, const Tensor& a, const Tensor& b);
Tensor record_gelu(const Tensor& out, const Tensor& x);

}  // namespace zerolab::ops
