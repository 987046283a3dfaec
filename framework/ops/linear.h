#pragma once

#include "framework/kernels/weight_layout.h"
#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// x [.., K] · weight + bias = [.., N]; weight is [K, N] or [N, K] as `layout` says; an undefined
/// bias is none.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              WeightLayout layout = WeightLayout::kInOut);
/// The GELU of `linear`, which is kept for the backward only where there is one.
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   WeightLayout layout = WeightLayout::kInOut);

}  // namespace zerolab::ops
