#include "framework/nn/embedding.h"

#include "framework/ops/embedding.h"

namespace zerolab::nn {

Embedding::Embedding(const Scope& scope, int64_t count, int64_t size, double stddev,
                     bool used_twice)
    : Module(scope),
      weight_(
          add_parameter(scope, "weight", Shape{count, size}, Init::normal(stddev), used_twice)) {}

Tensor Embedding::forward(const Tensor& indices) const {
  const ModuleScope running(indices.context(), name());
  return ops::embedding(indices, weight_.tensor());
}

}  // namespace zerolab::nn
