#pragma once

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// Normalises each row of x [.., C] to mean 0 and variance 1, then scales by weight [C] and adds
/// bias [C] (undefined: none).
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon);

struct NormalizedSum {
  Tensor sum;
  Tensor normalized;
};
/// a + b, of one shape, and its `layer_norm`.
NormalizedSum add_layer_norm(const Tensor& a, const Tensor& b, const Tensor& weight,
                             const Tensor& bias, double epsilon);

}  // namespace zerolab::ops
