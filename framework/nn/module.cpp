#include "framework/nn/module.h"

namespace zerolab::nn {

std::string Scope::name_of(std::string_view child) const {
  return name.empty() ? std::string(child) : name + "." + std::string(child);
}

Parameter& Module::add_parameter(const Scope& scope, std::string_view name, const Shape& shape,
                                 const Init& init, bool used_twice) {
  const CategoryScope category(scope.context, Category::kParameters);
  const std::string full_name = scope.name_of(name);
  const Tensor value = Tensor::empty(scope.context, shape, scope.dtype);
  initialize(value, init, scope.seed, full_name);
  own_.push_back(std::make_unique<Parameter>(full_name, value, used_twice, scope.name));
  parameters_.push_back(own_.back().get());
  return *own_.back();
}

void Module::add_module(const Module& module) {
  parameters_.insert(parameters_.end(), module.parameters_.begin(), module.parameters_.end());
}

}  // namespace zerolab::nn
