#pragma once

#include "framework/core/tensor.h"

namespace zerolab::ops {

/// The mean of (prediction - target)^2, a scalar. No gradient flows to the target.
Tensor mse(const Tensor& prediction, const Tensor& target);

}  // namespace zerolab::ops
