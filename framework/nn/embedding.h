#pragma once

#include "framework/nn/module.h"

namespace zerolab::nn {

/// A table of `count` rows. `used_twice`: the model reads the table again at its end, as a tied
/// output layer.
class Embedding final : public Module {
 public:
  Embedding(const Scope& scope, int64_t count, int64_t size, double stddev,
            bool used_twice = false);
  Tensor forward(const Tensor& indices) const;
  const Parameter& weight() const { return weight_; }

 private:
  Parameter& weight_;
};

}  // namespace zerolab::nn
