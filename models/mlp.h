#pragma once

#include <memory>
#include <vector>

#include "framework/nn/linear.h"

namespace zerolab {

/// Linear layers with ReLU between them: `sizes` are the widths from input to output.
class Mlp final : public nn::Module {
 public:
  /// Throws unless there are at least two sizes, all positive.
  Mlp(const nn::Scope& scope, const std::vector<int64_t>& sizes);
  /// x [.., sizes.front()] to [.., sizes.back()].
  Tensor forward(const Tensor& x) const;

 private:
  std::vector<std::unique_ptr<nn::Linear>> layers_;
};

}  // namespace zerolab
