#include "models/mlp.h"

#include <algorithm>
#include <cmath>

#include "framework/core/error.h"
#include "framework/ops/elementwise.h"

namespace zerolab {

Mlp::Mlp(const nn::Scope& scope, const std::vector<int64_t>& sizes) : Module(scope) {
  require(sizes.size() >= 2 && *std::min_element(sizes.begin(), sizes.end()) > 0, "mlp",
          "wrong layer sizes; got {} of them, expected at least two, all positive", sizes.size());
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    // He et al. 2015: keeps the activations' variance through ReLU.
    const double stddev = std::sqrt(2.0 / static_cast<double>(sizes[i]));
    const nn::Scope layer = scope.child(fmt::format("layers.{}", i));
    layers_.push_back(std::make_unique<nn::Linear>(layer, sizes[i], sizes[i + 1], true, stddev));
    add_module(*layers_.back());
  }
}

Tensor Mlp::forward(const Tensor& x) const {
  Tensor hidden = layers_.front()->forward(x);
  for (size_t i = 1; i < layers_.size(); ++i) {
    hidden = layers_[i]->forward(ops::relu(hidden));
  }
  return hidden;
}

}  // namespace zerolab
