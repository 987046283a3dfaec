#include "optim/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "framework/core/error.h"
#include "framework/tensor/backend.h"
#include "framework/update_rules/update_rule.h"

namespace zerolab::optim {
namespace {

UpdateSettings settings_for(const OptimizerOptions& options, const UpdateArguments& arguments) {
  return {.learning_rate = arguments.learning_rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .momentum = options.momentum,
          .weight_decay = arguments.weight_decay_factor * options.weight_decay,
          .step = arguments.step};
}

template <typename Rule>
class RuleOptimizer final : public Optimizer {
 public:
  explicit RuleOptimizer(const OptimizerOptions& options) : options_(options) {}
  ParameterGroup group_of(const Parameter& parameter) const override {
    return options_.group_of(parameter);
  }
  std::vector<std::string> state_names() const override {
    return {Rule::kStates.begin(), Rule::kStates.end()};
  }
  void update(Backend& backend, Stream& stream, const UpdateArguments& arguments,
              const Tensor& gradient, const Tensor& parameter,
              std::span<const Tensor> states) const override {
    backend.update(stream, {Rule(settings_for(options_, arguments))}, arguments.gradient_scale,
                   gradient, parameter, states);
  }

 private:
  const OptimizerOptions options_;
};

template <typename Rule>
bool is_meant(const OptimizerOptions& options) {
  if constexpr (requires(UpdateSettings settings) { Rule::is_for(settings); }) {
    return options.name == Rule::kName && Rule::is_for(settings_for(options, {}));
  }
  return options.name == Rule::kName;
}

}  // namespace

ParameterGroup decay_matrices(const Parameter& parameter) {
  return {.weight_decay_factor = parameter.shape().rank() >= 2 ? 1.0 : 0.0};
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for_each_rule([&]<typename Rule>() {
    if (std::ranges::find(names, Rule::kName) == names.end()) {
      names.emplace_back(Rule::kName);
    }
  });
  return names;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  std::unique_ptr<Optimizer> optimizer;
  for_each_rule([&]<typename Rule>() {
    if (is_meant<Rule>(options)) {
      optimizer = std::make_unique<RuleOptimizer<Rule>>(options);
    }
  });
  if (optimizer == nullptr) {
    throw ConfigError("optimizer",
                      fmt::format("unknown optimizer.name; got \"{}\", expected one of {}",
                                  options.name, fmt::join(optimizer_names(), ", ")));
  }
  return optimizer;
}

}  // namespace zerolab::optim
