#include "framework/tensor/backend.h"

namespace zerolab {

void Backend::linear_gelu_forward(Stream& stream, const Tensor& x, const Tensor& weight,
                                  WeightLayout layout, const Tensor& bias,
                                  const Tensor& pre_activation, const Tensor& out) {
  const Tensor& product = pre_activation.defined() ? pre_activation : out;
  linear_forward(stream, x, weight, layout, bias, product);
  gelu_forward(stream, product, out);
}

void Backend::add_layer_norm_forward(Stream& stream, const Tensor& a, const Tensor& b,
                                     const Tensor& weight, const Tensor& bias, double epsilon,
                                     const Tensor& sum, const Tensor& out, const Tensor& mean,
                                     const Tensor& rstd) {
  add(stream, a, b, sum);
  layer_norm_forward(stream, sum, weight, bias, epsilon, out, mean, rstd);
}

}  // namespace zerolab
