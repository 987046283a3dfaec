#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/nn/init.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::nn {

/// The surroundings of a module when it is made: its rank, its dotted name, and how parameters are
/// made.
struct Scope {
  RankContext& context;
  uint64_t seed = 0;
  DType dtype = DType::kFloat32;
  std::string name;  ///< empty for the model itself

  /// The dotted name of something inside, as in "h.0.attn.c_attn".
  std::string name_of(std::string_view child) const;
  Scope child(std::string_view child) const { return {context, seed, dtype, name_of(child)}; }
};

/// Owns parameters and lists those of its submodules. A parameter that two submodules share has one
/// owner, and so is listed once. Parameters keep their addresses for the module's life.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// In order of registration, the same on every rank.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  /// Dotted; empty for the model itself.
  const std::string& name() const { return name_; }

 protected:
  explicit Module(const Scope& scope) : name_(scope.name) {}
  /// Makes an initialised parameter under `Category::kParameters`.
  Parameter& add_parameter(const Scope& scope, std::string_view name, const Shape& shape,
                           const Init& init, bool used_twice = false);
  /// Lists the parameters of a finished submodule, which this module owns.
  void add_module(const Module& module);

 private:
  const std::string name_;
  std::vector<std::unique_ptr<Parameter>> own_;
  std::vector<Parameter*> parameters_;
};

}  // namespace zerolab::nn
