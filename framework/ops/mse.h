#pragma once

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// The mean of (prediction - target)^2, a scalar (fp32 where they have 16 bits). No gradient flows
/// to the target.
Tensor mse(const Tensor& prediction, const Tensor& target);

}  // namespace zerolab::ops
