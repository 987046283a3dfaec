#include "framework/ops/elementwise.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/ops/rules.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {
namespace {

bool is_suffix(const Shape& shape, const Shape& of) {
  for (int axis = 1; axis <= shape.rank(); ++axis) {
    if (axis > of.rank() || shape[-axis] != of[-axis]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  require_float("add", "a", a);
  require_dtype("add", "b", b, a.dtype());
  require(is_suffix(b.shape(), a.shape()) && b.numel() > 0, "add",
          "b must have the last extents of a; got {}, expected the end of {}",
          b.shape().to_string(), a.shape().to_string());
  RankContext& context = autograd::begin_op("add", {a, b});
  const Tensor out = Tensor::empty_like(a);
  context.backend().add(context.compute(), a, b, out);
  return record_add(out, a, b);
}

Tensor record_add(const Tensor& out, const Tensor& a, const Tensor& b) {
  return autograd::record(
      "add", out, {a, b},
      [broadcast = b.shape() != a.shape()](const Tensor& dy, autograd::Gradients& gradients) {
        if (gradients.needed(1) && !broadcast) {
          gradients.pass(1, dy);
        } else if (gradients.needed(1)) {
          const autograd::Destination db = gradients.parameter_destination(1);
          dy.context().backend().sum_rows(dy.context().compute(), dy, db.tensor, db.accumulate);
        }
        if (gradients.needed(0)) {
          gradients.pass(0, dy);
        }
      });
}

Tensor relu(const Tensor& x) {
  require_float("relu", "x", x);
  RankContext& context = autograd::begin_op("relu", {x});
  const Tensor out = Tensor::empty_like(x);
  context.backend().relu_forward(context.compute(), x, out);
  if (!autograd::records({x})) {
    return out;
  }
  // The output is positive exactly where x is, and the next op saves it anyway.
  return autograd::record("relu", out, {x},
                          [saved = out](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            dy.context().backend().relu_backward(dy.context().compute(), saved, dy,
                                                                 dx.tensor, dx.accumulate);
                          });
}

Tensor gelu(const Tensor& x) {
  require_float("gelu", "x", x);
  RankContext& context = autograd::begin_op("gelu", {x});
  const Tensor out = Tensor::empty_like(x);
  context.backend().gelu_forward(context.compute(), x, out);
  return record_gelu(out, x);
}

Tensor record_gelu(const Tensor& out, const Tensor& x) {
  return autograd::record("gelu", out, {x},
                          [x = x.detached()](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            dy.context().backend().gelu_backward(dy.context().compute(), x, dy,
                                                                 dx.tensor, dx.accumulate);
                          });
}

Tensor silu(const Tensor& x) {
  require_float("silu", "x", x);
  RankContext& context = autograd::begin_op("silu", {x});
  const Tensor out = Tensor::empty_like(x);
  context.backend().silu_forward(context.compute(), x, out);
  return autograd::record("silu", out, {x},
                          [x = x.detached()](const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dx = gradients.destination(0);
                            dy.context().backend().silu_backward(dy.context().compute(), x, dy,
                                                                 dx.tensor, dx.accumulate);
                          });
}

Tensor dropout(const Tensor& x, const DropoutKey& key) {
  require_float("dropout", "x", x);
  require(key.probability >= 0.0 && key.probability < 1.0, "dropout",
          "the probability must be within [0, 1); got {}", key.probability);
  require(x.shape().rank() > 0, "dropout", "a scalar has no samples");
  if (key.probability == 0.0) {
    return x;
  }
  RankContext& context = autograd::begin_op("dropout", {x});
  const Tensor out = Tensor::empty_like(x);
  context.backend().dropout(context.compute(), x, key, out, false);
  return autograd::record(
      "dropout", out, {x}, [key](const Tensor& dy, autograd::Gradients& gradients) {
        const autograd::Destination dx = gradients.destination(0);
        dy.context().backend().dropout(dy.context().compute(), dy, key, dx.tensor, dx.accumulate);
      });
}

}  // namespace zerolab::ops
