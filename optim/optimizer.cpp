#include "optim/optimizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <variant>

#include "framework/core/error.h"
#include "framework/update_rules/update_rule.h"

namespace zerolab::optim {
namespace {

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
    UpdateSettings settings = options_.settings();
    settings.learning_rate = arguments.learning_rate;
    settings.weight_decay *= arguments.weight_decay_factor;
    settings.step = arguments.step;
    backend.update(stream, {Rule(settings)}, arguments.gradient_scale, gradient, parameter, states);
  }

 private:
  const OptimizerOptions options_;
};

template <typename Rule>
bool is_meant(const OptimizerOptions& options) {
  if constexpr (requires(UpdateSettings settings) { Rule::is_for(settings); }) {
    return options.name == Rule::kName && Rule::is_for(options.settings());
  }
  return options.name == Rule::kName;
}

template <typename... Rules>
std::unique_ptr<Optimizer> make_from(std::variant<Rules...>* /*list*/,
                                     const OptimizerOptions& options) {
  std::unique_ptr<Optimizer> optimizer;
  ((is_meant<Rules>(options) ? optimizer = std::make_unique<RuleOptimizer<Rules>>(options)
                             : nullptr),
   ...);
  return optimizer;
}

template <typename... Rules>
std::vector<std::string> names_in(std::variant<Rules...>* /*list*/) {
  std::vector<std::string> names = {std::string(Rules::kName)...};
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

constexpr UpdateRule::Rules* kList = nullptr;

}  // namespace

ParameterGroup decay_matrices(const Parameter& parameter) {
  return {.weight_decay_factor = parameter.shape().rank() >= 2 ? 1.0 : 0.0};
}

std::vector<std::string> optimizer_names() { return names_in(kList); }

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  std::unique_ptr<Optimizer> optimizer = make_from(kList, options);
  if (optimizer == nullptr) {
    throw ConfigError("optimizer",
                      fmt::format("unknown optimizer.name; got \"{}\", expected one of {}",
                                  options.name, fmt::join(optimizer_names(), ", ")));
  }
  return optimizer;
}

}  // namespace zerolab::optim
