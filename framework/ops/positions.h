#pragma once

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// The mean over positions of x [B, T, C], as [B, C]. T is at least 1.
Tensor mean_positions(const Tensor& x);

}  // namespace zerolab::ops
