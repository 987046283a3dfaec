#include "tests/framework/test_rank.h"

#include "framework/nn/init.h"
#include "framework/plain/backend.h"

namespace zerolab {

TestRank::TestRank(const RankOptions& options)
    : backend(make_plain_backend()), context(options, *backend) {}

TestRank::~TestRank() = default;

Tensor TestRank::normal(const Shape& shape, DType dtype, std::string_view name) {
  const Tensor out = Tensor::empty(context, shape, dtype);
  nn::initialize(out, nn::Init::normal(1.0), 1, name);
  return out;
}

Tensor TestRank::converted(const Tensor& tensor, DType dtype) {
  const Tensor out = Tensor::empty(context, tensor.shape(), dtype);
  backend->copy(context.compute(), tensor, out);
  return out;
}

Tensor TestRank::coarse(const Shape& shape, DType dtype, std::string_view name) {
  return converted(normal(shape, DType::kBFloat16, name), dtype);
}

std::vector<double> TestRank::numbers(const Tensor& tensor) {
  return converted(tensor, DType::kFloat64).to_host<double>();
}

Tensor TestRank::ones_like(const Tensor& other) {
  const Tensor out = Tensor::empty_like(other);
  backend->fill(context.compute(), out, 1.0);
  return out;
}

}  // namespace zerolab
