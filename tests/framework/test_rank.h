#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "framework/nn/init.h"
#include "framework/plain/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

/// One rank on the plain backend.
struct TestRank {
  explicit TestRank(const RankOptions& options = {})
      : backend(make_plain_backend()), context(options, *backend) {}

  template <typename T>
  Tensor tensor(const Shape& shape, const std::vector<T>& values) {
    return Tensor::from_host(context, shape, std::span<const T>(values));
  }
  /// Normally distributed numbers, others for another name.
  Tensor normal(const Shape& shape, DType dtype, std::string_view name) {
    const Tensor out = Tensor::empty(context, shape, dtype);
    nn::initialize(out, nn::Init::normal(1.0), 1, name);
    return out;
  }
  /// The same tensor in another floating dtype.
  Tensor converted(const Tensor& tensor, DType dtype) {
    const Tensor out = Tensor::empty(context, tensor.shape(), dtype);
    backend->copy(context.compute(), tensor, out);
    return out;
  }
  /// Normally distributed numbers of few bits: the same in every floating dtype.
  Tensor coarse(const Shape& shape, DType dtype, std::string_view name) {
    return converted(normal(shape, DType::kBFloat16, name), dtype);
  }
  std::vector<double> numbers(const Tensor& tensor) {
    return converted(tensor, DType::kFloat64).to_host<double>();
  }
  /// A gradient to start a backward with.
  Tensor ones_like(const Tensor& other) {
    const Tensor out = Tensor::empty_like(other);
    backend->fill(context.compute(), out, 1.0);
    return out;
  }

  std::unique_ptr<Backend> backend;
  RankContext context;
};

}  // namespace zerolab
