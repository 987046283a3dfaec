#include "framework/autograd/parameter.h"

#include "framework/core/error.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

Parameter::Parameter(std::string name, const Tensor& value, bool used_twice, std::string module)
    : name_(std::move(name)),
      value_(value.detached()),
      used_twice_(used_twice),
      module_(std::move(module)),
      leaf_(std::make_shared<autograd::Leaf>(*this)) {}

Tensor Parameter::tensor() const { return value_.with_producer(leaf_); }

void Parameter::move_to(const Tensor& memory) {
  require(memory.numel() == numel() && memory.dtype() == value_.dtype(), "parameter",
          "{} cannot move to memory of another size or dtype; got {} x {}, expected {} x {}", name_,
          memory.numel(), name_of(memory.dtype()), numel(), name_of(value_.dtype()));
  value_ = memory.detached().view(shape());
}

autograd::Destination Parameter::open() {
  if (sink_ != nullptr) {
    return sink_->open(*this);
  }
  if (gradient_.defined()) {
    return {gradient_, true};
  }
  const CategoryScope scope(value_.context(), Category::kGradients);
  gradient_ = Tensor::empty_like(value_);
  return {gradient_, false};
}

}  // namespace zerolab
