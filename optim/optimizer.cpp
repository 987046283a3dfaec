#include "optim/optimizer.h"

#include "framework/core/error.h"

namespace zerolab::optim {
namespace {

class AdamW final : public Optimizer {
 public:
  explicit AdamW(const OptimizerOptions& options) : options_(options) {}
  ParameterGroup group_of(const Parameter& parameter) const override {
    return options_.group_of(parameter);
  }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void update(Backend& backend, Stream& stream, const UpdateArguments& arguments,
              const Tensor& gradient, const Tensor& parameter,
              std::span<const Tensor> states) const override {
    backend.adamw(stream,
                  {.learning_rate = arguments.learning_rate,
                   .beta1 = options_.beta1,
                   .beta2 = options_.beta2,
                   .epsilon = options_.epsilon,
                   .weight_decay = arguments.weight_decay_factor * options_.weight_decay,
                   .step = arguments.step,
                   .gradient_scale = arguments.gradient_scale},
                  gradient, parameter, states[0], states[1]);
  }

 private:
  const OptimizerOptions options_;
};

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options) : options_(options) {}
  ParameterGroup group_of(const Parameter& parameter) const override {
    return options_.group_of(parameter);
  }
  std::vector<std::string> state_names() const override {
    return options_.momentum == 0.0 ? std::vector<std::string>{}
                                    : std::vector<std::string>{"momentum"};
  }
  void update(Backend& backend, Stream& stream, const UpdateArguments& arguments,
              const Tensor& gradient, const Tensor& parameter,
              std::span<const Tensor> states) const override {
    backend.sgd(stream,
                {.learning_rate = arguments.learning_rate,
                 .momentum = options_.momentum,
                 .weight_decay = arguments.weight_decay_factor * options_.weight_decay,
                 .gradient_scale = arguments.gradient_scale},
                gradient, parameter, states.empty() ? Tensor() : states[0]);
  }

 private:
  const OptimizerOptions options_;
};

}  // namespace

ParameterGroup decay_matrices(const Parameter& parameter) {
  return {.weight_decay_factor = parameter.shape().rank() >= 2 ? 1.0 : 0.0};
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  if (options.name == "adamw") {
    return std::make_unique<AdamW>(options);
  }
  if (options.name == "sgd") {
    return std::make_unique<Sgd>(options);
  }
  throw ConfigError(
      "optimizer",
      fmt::format("unknown optimizer.name; got \"{}\", expected adamw or sgd", options.name));
}

}  // namespace zerolab::optim
