#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/core/backend.h"

namespace zerolab::optim {

struct OptimizerOptions {
  std::string name = "adamw";  ///< adamw, sgd
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.0;      ///< sgd only
  double weight_decay = 0.0;  ///< of parameters of two or more dimensions
};

/// What one update of one span needs beside its memory.
struct UpdateArguments {
  double learning_rate = 0.0;
  int64_t step = 1;           ///< updates made, this one included
  double gradient_scale = 1;  ///< multiplies every gradient first
  bool decay = false;         ///< whether weight decay applies to this span
};

/// An update rule over flat fp32 spans, each element by itself: it knows nothing of parameters or
/// ranks, so that a span may be cut anywhere. The state's memory belongs to the caller.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the state tensors, each with one fp32 element per parameter element, zero at the
  /// start.
  virtual std::vector<std::string> state_names() const = 0;
  /// All spans have equal numel; `states` come in the order of `state_names`.
  virtual void update(Backend& backend, Stream& stream, const UpdateArguments& arguments,
                      const Tensor& gradient, const Tensor& parameter,
                      std::span<const Tensor> states) const = 0;
};

/// Throws `ConfigError` for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace zerolab::optim
