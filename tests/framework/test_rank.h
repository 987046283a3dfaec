#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

/// One rank on the plain backend.
struct TestRank {
  explicit TestRank(const RankOptions& options = {});
  ~TestRank();

  template <typename T>
  Tensor tensor(const Shape& shape, const std::vector<T>& values) {
    return Tensor::from_host(context, shape, std::span<const T>(values));
  }
  /// Normally distributed numbers, others for another name.
  Tensor normal(const Shape& shape, DType dtype, std::string_view name);
  /// The same tensor in another floating dtype.
  Tensor converted(const Tensor& tensor, DType dtype);
  /// Normally distributed numbers of few bits: the same in every floating dtype.
  Tensor coarse(const Shape& shape, DType dtype, std::string_view name);
  std::vector<double> numbers(const Tensor& tensor);
  /// A gradient to start a backward with.
  Tensor ones_like(const Tensor& other);

  std::unique_ptr<Backend> backend;
  RankContext context;
};

}  // namespace zerolab
