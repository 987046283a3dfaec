#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "framework/autograd/node.h"
#include "framework/autograd/parameter.h"
#include "framework/core/error.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::autograd {
namespace {

/// Records the backwards of modules as spans that lie in each other as the forwards did.
class ModuleSpans {
 public:
  explicit ModuleSpans(RankContext& context) : context_(context) {}
  ~ModuleSpans() { leave(0); }
  ModuleSpans(const ModuleSpans&) = delete;
  ModuleSpans& operator=(const ModuleSpans&) = delete;

  /// What follows is of `module`; null: of none.
  void enter(const std::shared_ptr<const RunningModule>& module) {
    std::vector<std::shared_ptr<const RunningModule>> path;
    for (auto next = module; next != nullptr; next = next->outer) {
      path.insert(path.begin(), next);
    }
    size_t common = 0;
    while (common < std::min(path.size(), running_.size()) &&
           path[common] == running_[common].module) {
      ++common;
    }
    leave(common);
    for (size_t depth = common; depth < path.size(); ++depth) {
      running_.push_back(
          {path[depth], std::make_unique<ScopedSpan>(
                            context_.recorder(), context_.compute(),
                            Span{.kind = SpanKind::kModule, .name = path[depth]->name})});
    }
  }

 private:
  void leave(size_t depth) {
    while (running_.size() > depth) {
      running_.pop_back();
    }
  }

  struct Running {
    std::shared_ptr<const RunningModule> module;
    std::unique_ptr<ScopedSpan> span;
  };
  RankContext& context_;
  std::vector<Running> running_;  ///< the innermost last
};

}  // namespace

void backward(const Tensor& root, const Tensor& seed) {
  require(root.defined() && root.producer() != nullptr, "backward",
          "the tensor has no history; got a tensor that depends on no unfrozen parameter, or was "
          "made without gradients");
  require(seed.defined() && seed.shape() == root.shape() && seed.dtype() == root.dtype(),
          "backward", "the seed must have the root's shape and dtype; got {}, expected {} {}",
          seed.defined() ? fmt::format("{} {}", name_of(seed.dtype()), seed.shape().to_string())
                         : "nothing",
          name_of(root.dtype()), root.shape().to_string());

  // Count each leaf's contributions, so that it can be told after the last one.
  std::vector<std::shared_ptr<Node>> reached = {root.producer()};
  root.producer()->visited_ = true;
  for (size_t i = 0; i < reached.size(); ++i) {
    const std::shared_ptr<Node> node = reached[i];
    if (Leaf* leaf = node->as_leaf()) {
      leaf->pending_ = 0;
      continue;
    }
    for (const Node::Edge& edge : node->inputs_) {
      if (edge.node != nullptr && !edge.node->visited_) {
        edge.node->visited_ = true;
        reached.push_back(edge.node);
      }
    }
  }
  for (const std::shared_ptr<Node>& node : reached) {
    node->visited_ = false;
    for (const Node::Edge& edge : node->inputs_) {
      if (edge.node != nullptr && edge.node->as_leaf() != nullptr) {
        ++edge.node->as_leaf()->pending_;
      }
    }
  }

  // Consumers were all recorded later than what they consume: reverse order of recording is
  // dependency order.
  std::sort(reached.begin(), reached.end(),
            [](const auto& a, const auto& b) { return a->sequence_ > b->sequence_; });
  root.producer()->gradient_ = seed.detached();
  ModuleSpans modules(root.context());
  for (std::shared_ptr<Node>& node : reached) {
    if (node->as_leaf() != nullptr) {
      continue;
    }
    require(node->rule_ != nullptr, "backward",
            "'{}' was already run backwards and has released what it saved; run the forward again",
            node->name_);
    modules.enter(node->module_);
    Gradients gradients(*node);
    const Node::Rule rule = std::exchange(node->rule_, nullptr);
    const Tensor gradient = node->gradient_;
    rule(gradient, gradients);
    gradients.finish_leaves();
    node->gradient_ = Tensor();
    node->inputs_.clear();
    node = nullptr;
  }
}

}  // namespace zerolab::autograd
