#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"

namespace zerolab {
class Backend;
}

namespace zerolab::optim {

/// What may differ between the parameters of one model.
struct ParameterGroup {
  double learning_rate_factor = 1.0;
  double weight_decay_factor = 1.0;
};

/// GPT's habit: weight decay for parameters of two or more dimensions, none for biases and norms.
ParameterGroup decay_matrices(const Parameter& parameter);

struct OptimizerOptions {
  std::string name = "adamw";  ///< one of `optimizer_names`
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.0;
  double weight_decay = 0.0;
  std::function<ParameterGroup(const Parameter&)> group_of = decay_matrices;
};

/// What one update of one span needs beside its memory.
struct UpdateArguments {
  double learning_rate = 0.0;
  int64_t step = 1;                ///< updates made, this one included
  double gradient_scale = 1;       ///< multiplies every gradient first
  double weight_decay_factor = 0;  ///< times the optimizer's weight decay, for this span
};

/// An update rule over flat spans, each element by itself: a span may be cut anywhere. The state's
/// memory belongs to the caller.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual ParameterGroup group_of(const Parameter& parameter) const = 0;
  /// Names of the state tensors, each with one fp32 element per parameter element, zero at the
  /// start.
  virtual std::vector<std::string> state_names() const = 0;
  /// All spans have equal numel; parameter and states are fp32, the gradient of any floating dtype.
  /// `states` come in the order of `state_names`.
  virtual void update(Backend& backend, Stream& stream, const UpdateArguments& arguments,
                      const Tensor& gradient, const Tensor& parameter,
                      std::span<const Tensor> states) const = 0;
};

/// The names of all optimizers, each an update rule (framework/update_rules).
std::vector<std::string> optimizer_names();

/// Throws `ConfigError` for an unknown name.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options);

}  // namespace zerolab::optim
