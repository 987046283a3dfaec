#include "framework/ops/linear.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/ops/rules.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {
namespace {

/// Throws unless the inputs fit together; the shape of the result.
Shape check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias, WeightLayout layout) {
  require_float("linear", "x", x);
  require_dtype("linear", "weight", weight, x.dtype());
  require(x.shape().rank() >= 1, "linear", "x must have an extent; got a scalar");
  require(weight.shape().rank() == 2, "linear", "weight must be a matrix; got {}",
          weight.shape().to_string());
  const bool in_out = layout == WeightLayout::kInOut;
  const int64_t in = weight.shape()[in_out ? 0 : 1];
  const int64_t columns = weight.shape()[in_out ? 1 : 0];
  require(x.shape().cols() == in, "linear",
          "the last extent of x must be the weight's input; got {}, expected {} for weight {}",
          x.shape().to_string(), in, weight.shape().to_string());
  if (bias.defined()) {
    require_like("linear", "bias", bias, Shape{columns}, x.dtype());
  }
  return x.shape().with_cols(columns);
}

Tensor record_linear(const Tensor& out, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     WeightLayout layout) {
  // The parameters come first, in reverse of their registration as in their buckets; and x is freed
  // before its gradient is made.
  return autograd::record(
      "linear", out, {x, weight, bias},
      [x = x.detached(), weight = weight.detached(), layout](
          const Tensor& dy, autograd::Gradients& gradients) mutable {
        Backend& backend = dy.context().backend();
        Stream& compute = dy.context().compute();
        if (gradients.needed(2)) {
          const autograd::Destination dbias = gradients.parameter_destination(2);
          backend.sum_rows(compute, dy, dbias.tensor, dbias.accumulate);
        }
        if (gradients.needed(1)) {
          const autograd::Destination dweight = gradients.parameter_destination(1);
          backend.linear_backward_weight(compute, x, dy, layout, dweight.tensor,
                                         dweight.accumulate);
        }
        x = Tensor();
        if (gradients.needed(0)) {
          const autograd::Destination dx = gradients.destination(0);
          backend.linear_backward_input(compute, dy, weight, layout, dx.tensor, dx.accumulate);
        }
      });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, WeightLayout layout) {
  const Shape shape = check_linear(x, weight, bias, layout);
  RankContext& context = autograd::begin_op("linear", {x, weight, bias});
  const Tensor out = Tensor::empty(context, shape, x.dtype());
  context.backend().linear_forward(context.compute(), x, weight, layout, bias, out);
  return record_linear(out, x, weight, bias, layout);
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, WeightLayout layout) {
  const Shape shape = check_linear(x, weight, bias, layout);
  RankContext& context = autograd::begin_op("linear_gelu", {x, weight, bias});
  const bool records = autograd::records({x, weight, bias});
  const Tensor pre_activation = records ? Tensor::empty(context, shape, x.dtype()) : Tensor();
  const Tensor out = Tensor::empty(context, shape, x.dtype());
  context.backend().linear_gelu_forward(context.compute(), x, weight, layout, bias, pre_activation,
                                        out);
  return records ? record_gelu(out, record_linear(pre_activation, x, weight, bias, layout)) : out;
}

}  // namespace zerolab::ops
