#pragma once

#include <compare>
#include <cstdint>

#include "framework/kernels/weight_layout.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

/// One call of a linear kernel, by what its workspace can depend on.
struct LinearCall {
  enum class Pass : uint8_t { kForward, kBackwardInput, kBackwardWeight };
  Pass pass;
  int64_t rows;  ///< M
  int64_t in;    ///< K
  int64_t out;   ///< N
  WeightLayout layout;
  bool bias;
  bool accumulate;
  DType dtype;      ///< of both factors
  DType out_dtype;  ///< of the product
  bool gelu = false;
  bool pre_activation = false;  ///< written beside the GELU

  /// What the linear kernels are called with, so that a dry run asks for the workspace of the
  /// very call that the real run makes.
  static LinearCall forward(const Tensor& x, WeightLayout layout, const Tensor& bias,
                            const Tensor& out) {
    return {Pass::kForward,
            x.shape().rows(),
            x.shape().cols(),
            out.shape().cols(),
            layout,
            bias.defined(),
            false,
            x.dtype(),
            out.dtype()};
  }
  static LinearCall backward_input(const Tensor& dy, WeightLayout layout, const Tensor& dx,
                                   bool accumulate) {
    return {Pass::kBackwardInput,
            dy.shape().rows(),
            dx.shape().cols(),
            dy.shape().cols(),
            layout,
            false,
            accumulate,
            dy.dtype(),
            dx.dtype()};
  }
  static LinearCall backward_weight(const Tensor& x, const Tensor& dy, WeightLayout layout,
                                    const Tensor& dweight, bool accumulate) {
    return {Pass::kBackwardWeight,
            x.shape().rows(),
            x.shape().cols(),
            dy.shape().cols(),
            layout,
            false,
            accumulate,
            x.dtype(),
            dweight.dtype()};
  }
  bool is_empty() const { return rows * in * out == 0; }

  auto operator<=>(const LinearCall&) const = default;
};

}  // namespace zerolab
