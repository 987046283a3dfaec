#pragma once

#include <cstdint>

#include "framework/tensor/tensor.h"

// Elements of tensors in another order. Tensors are contiguous, so each of these copies. An axis
// below 0 counts from the end.

namespace zerolab::ops {

/// Elements [begin, begin + length) along `axis`.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t length);
/// a, then b along `axis`; their other extents are equal.
Tensor concatenate(const Tensor& a, const Tensor& b, int axis);
/// x with two axes exchanged.
Tensor transpose(const Tensor& x, int axis, int other_axis);

}  // namespace zerolab::ops
