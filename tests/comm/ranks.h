#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/local.h"
#include "framework/core/error.h"
#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

class Backend;

inline const CommTag kGradientTag = {Purpose::kGradient, 3};
inline const CommTag kParameterTag = {Purpose::kParameter, 0};

using RankBody = std::function<void(RankContext& context, Communicator& communicator)>;

struct RanksOptions {
  StreamMode streams = StreamMode::kImmediate;
  uint64_t lazy_seed = 0;
  LocalOptions group = {.timeout_s = 60};
};

/// The ranks that a test program is about: local ones on the plain backend (local_ranks.cpp), or
/// others that keep the same contracts.
std::unique_ptr<RankGroup> make_test_group(int size, const RanksOptions& options = {});
std::unique_ptr<Backend> make_test_backend();

/// Runs `body` on `size` ranks; on `backend` instead of their own, if given.
void on_ranks(int size, const RankBody& body, const RanksOptions& options = {},
              Backend* backend = nullptr);

/// A value that differs between ranks and elements, of few bits: sums are exact.
inline float value(int rank, int64_t i) { return static_cast<float>((rank + 1) * 100 + i % 97); }

inline std::vector<float> values(int rank, int64_t numel) {
  std::vector<float> result(numel);
  for (int64_t i = 0; i < numel; ++i) {
    result[i] = value(rank, i);
  }
  return result;
}

inline Tensor tensor_of(RankContext& context, const std::vector<float>& values) {
  return Tensor::from_host(context, Shape{static_cast<int64_t>(values.size())},
                           std::span<const float>(values));
}

inline Tensor tensor_of_rank(RankContext& context, int64_t numel) {
  return tensor_of(context, values(context.rank(), numel));
}

template <typename T>
Tensor rounded_tensor_of(RankContext& context, const std::vector<float>& values) {
  std::vector<T> rounded;
  for (const float value : values) {
    rounded.push_back(static_cast<T>(value));
  }
  return Tensor::from_host(context, Shape{static_cast<int64_t>(values.size())},
                           std::span<const T>(rounded));
}

/// `values` rounded to bf16 or fp16.
inline Tensor tensor_of(RankContext& context, const std::vector<float>& values, DType dtype) {
  return dtype == DType::kBFloat16 ? rounded_tensor_of<BFloat16>(context, values)
                                   : rounded_tensor_of<Float16>(context, values);
}

/// The numbers of a bf16 or fp16 tensor.
inline std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> result;
  const auto append = [&](const auto& halves) {
    for (const auto half : halves) {
      result.push_back(static_cast<float>(half));
    }
  };
  if (tensor.dtype() == DType::kBFloat16) {
    append(tensor.to_host<BFloat16>());
  } else {
    append(tensor.to_host<Float16>());
  }
  return result;
}

/// The sum of all ranks' element i over `divisor`, added in rank order.
inline float mean(int size, int64_t i, double divisor) {
  float sum = value(0, i);
  for (int rank = 1; rank < size; ++rank) {
    sum += value(rank, i);
  }
  return sum / static_cast<float>(divisor);
}

/// What `work` throws as text; empty when nothing.
template <typename Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

}  // namespace zerolab
