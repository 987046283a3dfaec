#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "framework/onednn/backend.h"
#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

/// Numbers around 0 that depend on the seed alone.
inline std::vector<float> random_numbers(int64_t count, uint32_t seed, float scale = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(generator);
  }
  return values;
}

/// A backend with a rank of its own.
struct Rank {
  Rank(std::unique_ptr<Backend> made, int threads)
      : backend(std::move(made)), context(RankOptions{.threads = threads}, *backend) {}

  Tensor tensor(const Shape& shape, const std::vector<float>& values) {
    return Tensor::from_host(context, shape, std::span<const float>(values));
  }
  Tensor indices(const std::vector<int32_t>& values) {
    return Tensor::from_host(context, Shape{static_cast<int64_t>(values.size())},
                             std::span<const int32_t>(values));
  }
  Tensor random(const Shape& shape, uint32_t seed, float scale = 1.0F) {
    return tensor(shape, random_numbers(shape.numel(), seed, scale));
  }
  Stream& stream() { return context.compute(); }

  std::unique_ptr<Backend> backend;
  RankContext context;
};

/// Runs `body(begin, numel)` over [0, size) in one piece or in odd ones.
inline void for_cuts(int64_t size, bool cut, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t lengths[] = {1, 129, 40001, 17, 3};
  int64_t begin = 0;
  for (int i = 0; begin < size; ++i) {
    const int64_t numel = cut ? std::min(lengths[i % 5], size - begin) : size;
    body(begin, numel);
    begin += numel;
  }
}

}  // namespace zerolab
