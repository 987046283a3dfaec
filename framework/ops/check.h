#pragma once

#include <string_view>

#include "framework/core/error.h"
#include "framework/tensor/tensor.h"

namespace zerolab::ops {

/// Throws unless `tensor` is there and has a floating element type.
inline void require_float(std::string_view op, std::string_view what, const Tensor& tensor) {
  require(tensor.defined(), op, "{} is missing", what);
  require(is_floating(tensor.dtype()), op,
          "wrong element type of {}; got {}, expected fp32, bf16, fp16 or fp64", what,
          name_of(tensor.dtype()));
}

/// Throws unless `tensor` is there and has this element type.
inline void require_dtype(std::string_view op, std::string_view what, const Tensor& tensor,
                          DType dtype) {
  require(tensor.defined(), op, "{} is missing", what);
  require(tensor.dtype() == dtype, op, "wrong element type of {}; got {}, expected {}", what,
          name_of(tensor.dtype()), name_of(dtype));
}

/// Throws unless `tensor` is there and has this shape and element type.
inline void require_like(std::string_view op, std::string_view what, const Tensor& tensor,
                         const Shape& shape, DType dtype) {
  require_dtype(op, what, tensor, dtype);
  require(tensor.shape() == shape, op, "wrong shape of {}; got {}, expected {}", what,
          tensor.shape().to_string(), shape.to_string());
}

}  // namespace zerolab::ops
