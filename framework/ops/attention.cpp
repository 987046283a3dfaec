#include "framework/ops/attention.h"

#include "framework/autograd/node.h"
#include "framework/kernels/attention_mask.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {
namespace {

void check_qkv(const Tensor& qkv, int64_t num_heads) {
  require_float("attention", "qkv", qkv);
  const Shape& shape = qkv.shape();
  require(num_heads > 0 && shape.rank() == 3 && shape.cols() % (3 * num_heads) == 0, "attention",
          "qkv must be [B, T, 3 * heads * size]; got {} with {} heads", shape.to_string(),
          num_heads);
}

Tensor attention(const Tensor& qkv, int64_t num_heads, AttentionMask mask) {
  check_qkv(qkv, num_heads);
  const Shape& shape = qkv.shape();
  RankContext& context = autograd::begin_op("attention", {qkv});
  const Tensor out = Tensor::empty(context, shape.with_cols(shape.cols() / 3), qkv.dtype());
  const Tensor log_sum_exp =
      Tensor::empty(context, Shape{shape[0], num_heads, shape[1]}, statistics_type(qkv.dtype()));
  context.backend().attention_forward(context.compute(), qkv, num_heads, mask, out, log_sum_exp);
  if (!autograd::records({qkv})) {
    return out;
  }
  return autograd::record("attention", out, {qkv},
                          [qkv = qkv.detached(), saved_out = out, log_sum_exp, num_heads, mask](
                              const Tensor& dy, autograd::Gradients& gradients) {
                            const autograd::Destination dqkv = gradients.destination(0);
                            dy.context().backend().attention_backward(
                                dy.context().compute(), qkv, saved_out, log_sum_exp, dy, num_heads,
                                mask, dqkv.tensor, dqkv.accumulate);
                          });
}

}  // namespace

Tensor causal_attention(const Tensor& qkv, int64_t num_heads) {
  return attention(qkv, num_heads, AttentionMask::kCausal);
}

Tensor full_attention(const Tensor& qkv, int64_t num_heads) {
  return attention(qkv, num_heads, AttentionMask::kNone);
}

Tensor causal_attention_of_last(const Tensor& qkv, int64_t num_heads) {
  check_qkv(qkv, num_heads);
  const Shape& shape = qkv.shape();
  require(shape[1] > 0, "attention", "no position to attend; got qkv {}", shape.to_string());
  require(!autograd::records({qkv}), "attention",
          "the last position's attention has no gradient; use causal_attention, or a NoGradScope");
  RankContext& context = autograd::begin_op("attention", {qkv});
  const Tensor out = Tensor::empty(context, Shape{shape[0], 1, shape.cols() / 3}, qkv.dtype());
  context.backend().attention_last(context.compute(), qkv, num_heads, out);
  return out;
}

}  // namespace zerolab::ops
