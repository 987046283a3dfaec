#include "framework/ops/cross_entropy.h"

#include "framework/autograd/node.h"
#include "framework/ops/check.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::ops {

Tensor cross_entropy(const Tensor& logits, const Tensor& targets) {
  require_float("cross_entropy", "logits", logits);
  require_dtype("cross_entropy", "targets", targets, DType::kInt32);
  require(logits.shape().rank() >= 1 && logits.numel() > 0, "cross_entropy",
          "logits must have rows; got {}", logits.shape().to_string());
  require(targets.numel() == logits.shape().rows(), "cross_entropy",
          "one target a row; got {} targets, expected {} for logits {}", targets.numel(),
          logits.shape().rows(), logits.shape().to_string());
  require(logits.producer() == nullptr || logits.producer()->as_leaf() == nullptr, "cross_entropy",
          "the backward would overwrite a parameter; got a parameter as logits");

  RankContext& context = autograd::begin_op("cross_entropy", {logits, targets});
  const Tensor log_sum_exp =
      Tensor::empty(context, Shape{targets.numel()}, statistics_type(logits.dtype()));
  const Tensor loss = Tensor::empty(context, Shape{}, statistics_type(logits.dtype()));
  context.backend().cross_entropy_forward(context.compute(), logits, targets, log_sum_exp, loss);
  if (!autograd::records({logits})) {
    return loss;
  }
  return autograd::record("cross_entropy", loss, {logits},
                          [logits = logits.detached(), targets, log_sum_exp](
                              const Tensor& dloss, autograd::Gradients& gradients) {
                            dloss.context().backend().cross_entropy_backward(
                                dloss.context().compute(), dloss, targets, log_sum_exp, logits);
                            gradients.pass(0, logits);
                          });
}

}  // namespace zerolab::ops
