#pragma once

#include <string>

#include "framework/autograd/parameter.h"

namespace zerolab {

/// Holds one parameter's gradient, in any dtype, and records what a data-parallel engine would
/// hear.
class FakeSink final : public GradientSink {
 public:
  explicit FakeSink(DType dtype = DType::kFloat32) : dtype_(dtype) {}

  autograd::Destination open(Parameter& parameter) override {
    log += "open " + parameter.name() + ";";
    const bool first = !memory.defined();
    if (first) {
      memory = Tensor::empty(parameter.value().context(), parameter.shape(), dtype_);
    }
    return {memory, !first};
  }
  void ready(Parameter& parameter) override { log += "ready " + parameter.name() + ";"; }

  std::string log;
  Tensor memory;

 private:
  const DType dtype_;
};

}  // namespace zerolab
