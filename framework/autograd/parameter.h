#pragma once

#include <memory>
#include <string>

#include "framework/autograd/node.h"
#include "framework/core/stream.h"

namespace zerolab {

class Parameter;

/// Gives parameters' gradients their memory and hears when they are complete. Data parallelism
/// attaches here.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// Memory for the next contribution, of the parameter's shape and any floating dtype, and whether
  /// to add to it. Called on the host thread, once a contribution, just before its kernel is
  /// launched on the compute stream.
  virtual autograd::Destination open(Parameter& parameter) = 0;
  /// The last contribution of this backward has been launched: once a backward and parameter that
  /// was reached.
  virtual void ready(Parameter& parameter) = 0;
};

namespace autograd {
/// The node of a parameter: where the tape ends.
class Leaf final : public Node {
 public:
  explicit Leaf(Parameter& parameter) : Node("leaf", {}, nullptr), parameter_(parameter) {}
  Leaf* as_leaf() override { return this; }
  Parameter& parameter() const { return parameter_; }

 private:
  friend class Gradients;
  friend void autograd::backward(const Tensor& root, const Tensor& seed);
  Parameter& parameter_;
  int64_t pending_ = 0;  ///< contributions still to come in this backward
};
}  // namespace autograd

/// A named tensor that is trained. Without a sink its gradient lies in a tensor of its own
/// (`gradient`).
class Parameter {
 public:
  /// `used_twice`: the model uses it early and late (a tied embedding), so that its gradient is
  /// complete last. `module`: the name of the module that registered it.
  Parameter(std::string name, const Tensor& value, bool used_twice = false,
            std::string module = {});
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return value_.shape(); }
  int64_t numel() const { return value_.numel(); }
  bool used_twice() const { return used_twice_; }
  /// One op writes the gradients of one module's parameters together. Empty: it stands alone.
  const std::string& module() const { return module_; }

  /// The value, as the leaf of a tape unless frozen. Shares the parameter's memory.
  Tensor tensor() const;
  /// The value's memory, without history.
  const Tensor& value() const { return value_; }
  /// Moves the parameter to `memory` (same shape), which already holds its value.
  void move_to(const Tensor& memory);

  /// A frozen parameter gets no gradient.
  void set_frozen(bool frozen) { frozen_ = frozen; }
  bool frozen() const { return frozen_; }

  /// Ops wait for this event before they read the value: a gather may still be filling it.
  void set_ready(const Event& event) { ready_ = event; }
  const Event& ready() const { return ready_; }

  /// Null: back to the parameter's own gradient.
  void set_sink(GradientSink* sink) { sink_ = sink; }
  GradientSink* sink() const { return sink_; }
  /// The own gradient; undefined before the first backward and after `zero_gradient`.
  const Tensor& gradient() const { return gradient_; }
  void zero_gradient() { gradient_ = Tensor(); }

 private:
  friend class autograd::Gradients;
  autograd::Destination open();

  std::string name_;
  Tensor value_;
  bool used_twice_;
  std::string module_;
  bool frozen_ = false;
  Event ready_;
  GradientSink* sink_ = nullptr;
  Tensor gradient_;
  std::shared_ptr<autograd::Leaf> leaf_;
};

}  // namespace zerolab
