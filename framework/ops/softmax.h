#pragma once

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// e^x over its sum along each row of x [.., C].
Tensor softmax(const Tensor& x);

}  // namespace zerolab::ops
