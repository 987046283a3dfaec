#include "framework/autograd/node.h"

#include <utility>

#include "framework/autograd/parameter.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::autograd {
namespace {

bool needs_gradient(const Tensor& input) {
  if (!input.defined() || input.producer() == nullptr) {
    return false;
  }
  const Leaf* leaf = input.producer()->as_leaf();
  return leaf == nullptr || !leaf->parameter().frozen();
}

void write(const Tensor& gradient, const Destination& destination) {
  RankContext& context = gradient.context();
  if (destination.accumulate) {
    context.backend().accumulate(context.compute(), gradient, destination.tensor);
  } else {
    context.backend().copy(context.compute(), gradient, destination.tensor);
  }
}

/// Grows by one a node; only its order within one rank's tape matters.
uint64_t next_sequence() {
  thread_local uint64_t sequence = 0;
  return ++sequence;
}

}  // namespace

Node::Node(std::string_view name, std::vector<Edge> inputs, Rule rule,
           std::shared_ptr<const RunningModule> module)
    : name_(name),
      inputs_(std::move(inputs)),
      rule_(std::move(rule)),
      module_(std::move(module)),
      sequence_(next_sequence()) {}

Node::~Node() {
  std::vector<Edge> edges = std::move(inputs_);
  while (!edges.empty()) {
    const std::shared_ptr<Node> node = std::move(edges.back().node);
    edges.pop_back();
    if (node != nullptr && node.use_count() == 1) {
      edges.insert(edges.end(), std::make_move_iterator(node->inputs_.begin()),
                   std::make_move_iterator(node->inputs_.end()));
      node->inputs_.clear();
    }
  }
}

bool Gradients::needed(int input) const { return node_.inputs_[input].node != nullptr; }

Destination Gradients::destination(int input) {
  return destination_of(input, node_.inputs_[input].dtype);
}

Destination Gradients::parameter_destination(int input) {
  return destination_of(input, DType::kFloat32);
}

Destination Gradients::destination_of(int input, DType also) {
  const Node::Edge& edge = node_.inputs_[input];
  Node& producer = *edge.node;
  if (Leaf* leaf = producer.as_leaf()) {
    opened_.push_back(leaf);
    const Destination memory = leaf->parameter().open();
    if (memory.tensor.dtype() == edge.dtype || memory.tensor.dtype() == also) {
      return memory;
    }
    conversions_.push_back(
        {Tensor::empty(memory.tensor.context(), edge.shape, edge.dtype), memory});
    return {conversions_.back().gradient, false};
  }
  finish_leaves();
  if (!producer.gradient_.defined()) {
    producer.gradient_ = Tensor::empty(node_.gradient_.context(), edge.shape, edge.dtype);
    return {producer.gradient_, false};
  }
  if (!producer.gradient_.is_unique()) {
    // Somebody else still reads this memory (`pass` shares it): add to a copy.
    const Tensor copy = Tensor::empty_like(producer.gradient_);
    write(producer.gradient_, {copy, false});
    producer.gradient_ = copy;
  }
  return {producer.gradient_, true};
}

void Gradients::pass(int input, const Tensor& gradient) {
  const Node::Edge& edge = node_.inputs_[input];
  if (Leaf* leaf = edge.node->as_leaf()) {
    opened_.push_back(leaf);
    write(gradient, leaf->parameter().open());
  } else if (edge.node->gradient_.defined()) {
    write(gradient, destination(input));
  } else {
    edge.node->gradient_ = gradient.view(edge.shape);
  }
}

void Gradients::finish_leaves() {
  for (const Conversion& conversion : std::exchange(conversions_, {})) {
    write(conversion.gradient, conversion.destination);
  }
  for (Leaf* leaf : std::exchange(opened_, {})) {
    if (--leaf->pending_ == 0 && leaf->parameter().sink() != nullptr) {
      leaf->parameter().sink()->ready(leaf->parameter());
    }
  }
}

bool records(std::initializer_list<Tensor> inputs) {
  bool any = false;
  for (const Tensor& input : inputs) {
    any = any || (needs_gradient(input) && input.context().grad_enabled());
  }
  return any;
}

Tensor record(std::string_view name, const Tensor& output, std::initializer_list<Tensor> inputs,
              Node::Rule rule) {
  if (!records(inputs)) {
    return output;
  }
  std::vector<Node::Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    edges.push_back(needs_gradient(input)
                        ? Node::Edge{input.producer(), input.shape(), input.dtype()}
                        : Node::Edge{});
  }
  return output.with_producer(
      std::make_shared<Node>(name, std::move(edges), std::move(rule), output.context().module()));
}

RankContext& begin_op(std::string_view name, std::initializer_list<Tensor> inputs) {
  RankContext* context = nullptr;
  for (const Tensor& input : inputs) {
    if (!input.defined()) {
      continue;
    }
    require(context == nullptr || context == &input.context(), name,
            "inputs belong to different ranks");
    context = &input.context();
    if (input.producer() != nullptr) {
      if (const Leaf* leaf = input.producer()->as_leaf()) {
        context->wait_for_communication(leaf->parameter().ready(), "all_gather", -1);
      }
    }
  }
  require(context != nullptr, name, "no input is defined");
  return *context;
}

}  // namespace zerolab::autograd
