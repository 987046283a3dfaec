#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "framework/tensor/tensor.h"

namespace zerolab {
struct RunningModule;
}

namespace zerolab::autograd {

class Gradients;
class Leaf;

/// One recorded operation, or a leaf. The tape is the graph of nodes that outputs hold; `backward`
/// is the operation's gradient rule, a closure over the tensors it saved.
class Node {
 public:
  using Rule = std::function<void(const Tensor& output_gradient, Gradients& gradients)>;
  /// An input through which gradients flow; `node` is null for one through which none do.
  struct Edge {
    std::shared_ptr<Node> node;
    Shape shape;
    DType dtype = DType::kFloat32;
  };

  /// `module`: that recorded it, where the rank is traced.
  Node(std::string_view name, std::vector<Edge> inputs, Rule rule,
       std::shared_ptr<const RunningModule> module = nullptr);
  /// Unlinks long chains one by one, not by recursion.
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::string_view name() const { return name_; }
  virtual Leaf* as_leaf() { return nullptr; }

 private:
  friend class Gradients;
  friend void backward(const Tensor& root, const Tensor& seed);

  std::string_view name_;  ///< static storage
  std::vector<Edge> inputs_;
  Rule rule_;
  const std::shared_ptr<const RunningModule> module_;
  uint64_t sequence_;  ///< order of recording: a node's consumers all have larger numbers
  Tensor gradient_;    ///< what consumers have contributed so far, during a backward
  bool visited_ = false;
};

/// Where a gradient rule writes the gradient of one input: `accumulate` says whether to add or to
/// overwrite.
struct Destination {
  Tensor tensor;
  bool accumulate = false;
};

/// A gradient rule's way to its inputs' gradients. Each input that is `needed` gets exactly one
/// contribution. A rule launches the kernels of parameters' gradients before it asks for another
/// input's destination: the parameters hear then that they are ready, so that communication of a
/// weight's gradient need not wait for the input's gradient, which takes as long to compute.
class Gradients {
 public:
  bool needed(int input) const;
  /// Memory for the gradient of `input`, of its dtype: fresh, or holding earlier contributions, or
  /// the engine's own.
  Destination destination(int input);
  /// The same for kernels that also write fp32 (backend.h, gradients of parameters): an engine that
  /// accumulates 16-bit gradients in fp32 then gets sums that were never rounded.
  Destination parameter_destination(int input);
  /// Contributes `gradient` as it is, without a copy where nobody else needs its memory.
  void pass(int input, const Tensor& gradient);

 private:
  friend void backward(const Tensor& root, const Tensor& seed);
  explicit Gradients(Node& node) : node_(node) {}
  /// `also`: a dtype besides the input's that its kernel writes.
  Destination destination_of(int input, DType also);
  /// When the kernels of the leaves opened so far have been launched: hands them gradients whose
  /// memory has another dtype, and tells those that it was the last contribution to.
  void finish_leaves();

  struct Conversion {
    Tensor gradient;
    Destination destination;
  };

  Node& node_;
  std::vector<Conversion> conversions_;
  std::vector<Leaf*> opened_;
};

/// Makes `output` the result of an operation on `inputs`: gradients flow through it if they are
/// enabled and any input needs one. The rule must not capture a tensor that holds this node.
Tensor record(std::string_view name, const Tensor& output, std::initializer_list<Tensor> inputs,
              Node::Rule rule);

/// True when an op on `inputs` would record its gradient, and so must save what that needs.
bool records(std::initializer_list<Tensor> inputs);

/// The context of all `inputs` (undefined ones aside), after its compute stream has been made to
/// wait for every parameter among them. Throws when they belong to different contexts. Every op
/// begins with it.
RankContext& begin_op(std::string_view name, std::initializer_list<Tensor> inputs);

/// Runs the tape backwards from `root`, with `seed` (same shape and dtype) as its gradient; in
/// reverse order of recording, iteratively. Saved tensors are released as soon as their node has
/// run, so a second call throws `Error`. Each leaf hears `ready` once, after its last contribution.
void backward(const Tensor& root, const Tensor& seed);

}  // namespace zerolab::autograd
