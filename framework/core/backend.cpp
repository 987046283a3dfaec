#include "framework/core/backend.h"

namespace zerolab {

void Backend::linear_gelu_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                  WeightLayout layout, const Tensor& bias,
                                  const Tensor& pre_activation, const Tensor& out) {
  const Tensor& product = pre_activation.defined() ? pre_activation : out;
  linear_forward(stream, x, weight, layout, bias, product);
  gelu_forward(stream, product, out);
}

}  // namespace zerolab
