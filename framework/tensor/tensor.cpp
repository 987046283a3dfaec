#include "framework/tensor/tensor.h"

#include <cstring>

#include "framework/core/error.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {
namespace {

template <typename T>
void require_dtype(const Tensor& tensor) {
  require(tensor.dtype() == DTypeOf<T>::value, "tensor", "wrong element type; got {}, expected {}",
          name_of(DTypeOf<T>::value), name_of(tensor.dtype()));
}

}  // namespace

Tensor Tensor::empty(RankContext& context, const Shape& shape, DType dtype) {
  Tensor tensor;
  tensor.storage_ = std::make_shared<Storage>(context, shape, dtype);
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::empty_like(const Tensor& other) {
  return empty(other.context(), other.shape(), other.dtype());
}

Tensor Tensor::workspace(RankContext& context, int64_t bytes) {
  const CategoryScope scope(context, Category::kWorkspace);
  return empty(context, Shape{(bytes + 3) / 4}, DType::kFloat32);
}

Tensor Tensor::zeros(RankContext& context, const Shape& shape, DType dtype) {
  const Tensor tensor = empty(context, shape, dtype);
  context.backend().fill(context.compute(), tensor, 0.0);
  return tensor;
}

template <typename T>
Tensor Tensor::from_host(RankContext& context, const Shape& shape, std::span<const T> values) {
  require(shape.numel() == static_cast<int64_t>(values.size()), "tensor",
          "wrong number of values; got {}, expected {} for shape {}", values.size(), shape.numel(),
          shape.to_string());
  const Tensor tensor = empty(context, shape, DTypeOf<T>::value);
  context.backend().copy_from_host(context.compute(), std::as_bytes(values), tensor);
  return tensor;
}

Tensor Tensor::view(const Shape& shape) const {
  require(shape.numel() == numel(), "tensor",
          "a view must keep the number of elements; got {}, expected {} as in {}",
          shape.to_string(), numel(), shape_.to_string());
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::range(int64_t begin, int64_t numel) const {
  require(begin >= 0 && numel >= 0 && begin + numel <= this->numel(), "tensor",
          "range outside the tensor; got [{}, {}), expected within {} elements", begin,
          begin + numel, this->numel());
  require_no_gradient("range");
  Tensor result = detached();
  result.byte_offset_ += begin * size_of(dtype_);
  result.shape_ = Shape{numel};
  return result;
}

Tensor Tensor::reinterpret(DType dtype) const {
  require(bytes() % size_of(dtype) == 0, "tensor", "{} bytes are no whole number of {}", bytes(),
          name_of(dtype));
  require_no_gradient("reinterpret");
  Tensor result = detached();
  result.shape_ = Shape{bytes() / size_of(dtype)};
  result.dtype_ = dtype;
  return result;
}

void Tensor::require_no_gradient(std::string_view what) const {
  require(producer_ == nullptr || !context().grad_enabled(), "tensor",
          "{}() drops the gradient; got a tensor {} with history, expected one without; use "
          "ops::slice, or detached() where no gradient is wanted",
          what, shape_.to_string());
}

Tensor Tensor::detached() const {
  Tensor result = *this;
  result.producer_ = nullptr;
  return result;
}

Tensor Tensor::with_producer(std::shared_ptr<autograd::Node> producer) const {
  Tensor result = *this;
  result.producer_ = std::move(producer);
  return result;
}

template <typename T>
std::vector<T> Tensor::to_host() const {
  std::vector<T> values(numel());
  context().compute().synchronize();
  copy_to_host(std::span<T>(values));
  return values;
}

template <typename T>
void Tensor::copy_to_host(std::span<T> out) const {
  require_dtype<T>(*this);
  require(static_cast<int64_t>(out.size()) == numel(), "tensor",
          "wrong room on the host; got {}, expected {}", out.size(), numel());
  context().backend().copy_to_host(*this, std::as_writable_bytes(out));
}

double Tensor::item() const {
  require(numel() == 1, "tensor", "item() needs one element; got shape {}", shape_.to_string());
  double value = 0.0;
  with_float_type(dtype_, [&]<typename T>(T) { value = widened(to_host<T>()[0]); });
  return value;
}

std::byte* Tensor::raw() const {
  std::byte* base = storage_ == nullptr ? nullptr : storage_->data();
  return base == nullptr ? nullptr : base + byte_offset_;
}

template Tensor Tensor::from_host(RankContext&, const Shape&, std::span<const float>);
template Tensor Tensor::from_host(RankContext&, const Shape&, std::span<const double>);
template Tensor Tensor::from_host(RankContext&, const Shape&, std::span<const int32_t>);
template Tensor Tensor::from_host(RankContext&, const Shape&, std::span<const int64_t>);
template Tensor Tensor::from_host(RankContext&, const Shape&, std::span<const BFloat16>);
template Tensor Tensor::from_host(RankContext&, const Shape&, std::span<const Float16>);
template std::vector<float> Tensor::to_host() const;
template std::vector<double> Tensor::to_host() const;
template std::vector<int32_t> Tensor::to_host() const;
template std::vector<int64_t> Tensor::to_host() const;
template std::vector<BFloat16> Tensor::to_host() const;
template std::vector<Float16> Tensor::to_host() const;
template void Tensor::copy_to_host(std::span<float>) const;
template void Tensor::copy_to_host(std::span<double>) const;
template void Tensor::copy_to_host(std::span<int32_t>) const;
template void Tensor::copy_to_host(std::span<int64_t>) const;
template void Tensor::copy_to_host(std::span<BFloat16>) const;
template void Tensor::copy_to_host(std::span<Float16>) const;

}  // namespace zerolab
