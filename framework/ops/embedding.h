#pragma once

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// Rows of table [V, C]: indices [..] int32, all within [0, V) (their maker checks that),
/// give [.., C].
Tensor embedding(const Tensor& indices, const Tensor& table);

}  // namespace zerolab::ops
