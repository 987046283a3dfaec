#pragma once

#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// The mean over rows of -log softmax(logits)[target], a scalar (fp32 where they have 16 bits).
/// logits [.., V]; targets int32 within [0, V), one a row. The backward overwrites the logits'
/// memory with their gradient, so that the largest tensor of a language model is held once: logits
/// must be an op's output, and no other op may save them.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

}  // namespace zerolab::ops
