#include "apps/benchmark/trainer.h"

#include <algorithm>
#include <cmath>

#include "framework/core/exact_sum.h"
#include "framework/core/recorder.h"
#include "framework/tensor/backend.h"
#include "zero/engine.h"

namespace zerolab::bench {
namespace {

constexpr double kLearningRate = 1e-4;

class EngineTrainer final : public Trainer {
 public:
  EngineTrainer(RankContext& context, Communicator& communicator,
                const std::vector<Parameter*>& parameters, const optim::Optimizer& optimizer,
                const zero::EngineOptions& options)
      : context_(context), engine_(context, communicator, parameters, optimizer, options) {}

  double step(const Tensor& loss, int64_t tokens) override {
    {
      const ScopedSpan span = context_.span(SpanKind::kBackward, "backward");
      engine_.begin_micro_batch();
      engine_.backward(loss);
    }
    engine_.end_micro_batch();
    return engine_.step({.learning_rate = kLearningRate, .tokens = tokens}).loss;
  }
  void finish() override { engine_.wait_for_parameters(); }
  const zero::Layout* layout() const override { return &engine_.layout(); }

 private:
  RankContext& context_;
  zero::Engine engine_;
};

class PlainTrainer final : public Trainer {
 public:
  PlainTrainer(RankContext& context, const std::vector<Parameter*>& parameters,
               const optim::Optimizer& optimizer, const zero::EngineOptions& options)
      : context_(context), parameters_(parameters), optimizer_(optimizer), options_(options) {
    const Shape words = {kStatisticsWords};
    statistics_ = Tensor::zeros(context, words, DType::kInt64);
    const CategoryScope scope(context, Category::kOptimizerState);
    for (const Parameter* parameter : parameters_) {
      std::vector<Tensor>& states = states_.emplace_back();
      for (size_t i = 0; i < optimizer.state_names().size(); ++i) {
        states.push_back(
            Tensor::zeros(context, Shape{parameter->numel()}, parameter->value().dtype()));
      }
    }
  }

  double step(const Tensor& loss, int64_t /*tokens*/) override {
    const Tensor seed = Tensor::empty_like(loss);
    context_.backend().fill(context_.compute(), seed, 1.0);
    autograd::backward(loss, seed);
    ++updates_;
    // As torch.nn.utils.clip_grad_norm_ does.
    const double scale = std::min(1.0, options_.gradient_clipping / (gradient_norm() + 1e-6));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Parameter& parameter = *parameters_[i];
      const optim::ParameterGroup group = optimizer_.group_of(parameter);
      const Shape flat = {parameter.numel()};
      optimizer_.update(context_.backend(), context_.compute(),
                        {.learning_rate = kLearningRate * group.learning_rate_factor,
                         .step = updates_,
                         .gradient_scale = scale,
                         .weight_decay_factor = group.weight_decay_factor},
                        parameter.gradient().view(flat), parameter.value().view(flat), states_[i]);
      parameter.zero_gradient();
    }
    return loss.item();
  }

 private:
  double gradient_norm() {
    context_.backend().fill(context_.compute(), statistics_, 0.0);
    int64_t index = 0;
    for (const Parameter* parameter : parameters_) {
      context_.backend().gradient_statistics(context_.compute(),
                                             parameter->gradient().view({parameter->numel()}),
                                             options_.alignment, index, statistics_);
      index += parameter->numel();
    }
    std::vector<int64_t> words = statistics_.to_host<int64_t>();
    return std::sqrt(round_exact_sum(std::span(words).first(kExactSumWords)));
  }

  RankContext& context_;
  const std::vector<Parameter*> parameters_;
  const optim::Optimizer& optimizer_;
  const zero::EngineOptions options_;
  Tensor statistics_;
  std::vector<std::vector<Tensor>> states_;  ///< by parameter
  int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Trainer> make_engine_trainer(RankContext& context, Communicator& communicator,
                                             const std::vector<Parameter*>& parameters,
                                             const optim::Optimizer& optimizer,
                                             const zero::EngineOptions& options) {
  return std::make_unique<EngineTrainer>(context, communicator, parameters, optimizer, options);
}

std::unique_ptr<Trainer> make_plain_trainer(RankContext& context,
                                            const std::vector<Parameter*>& parameters,
                                            const optim::Optimizer& optimizer,
                                            const zero::EngineOptions& options) {
  return std::make_unique<PlainTrainer>(context, parameters, optimizer, options);
}

}  // namespace zerolab::bench
