#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/cuda/backend.h"
#include "framework/plain/backend.h"
#include "tests/framework/onednn_rank.h"

// Kernels of the device against the plain backend's in fp32, on the same numbers.

namespace zerolab {

/// The largest error of one rounding of `value`; 0 for fp32.
inline float rounding_of(DType dtype, float value) {
  switch (dtype) {
    case DType::kBFloat16:
      return std::abs(value) * 0x1p-8F;
    case DType::kFloat16:
      return std::abs(value) * 0x1p-11F + 0x1p-25F;
    default:
      return 0.0F;
  }
}

/// Elements of any floating dtype as fp32.
inline std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values;
  with_float_type(tensor.dtype(), [&]<typename T>(T) {
    for (const T value : tensor.to_host<T>()) {
      values.push_back(static_cast<float>(value));
    }
  });
  return values;
}

/// Where a kernel runs: on the device with tensors of `type`, or on the plain backend in fp32 with
/// numbers that `held`, the device's type, can hold.
class Side {
 public:
  Side(std::unique_ptr<Backend> made, DType held, DType type)
      : type(type), rank(std::move(made), 1), held_(held) {}
  static Side device(DType type) { return {make_cuda_backend(), type, type}; }
  static Side plain(DType held) { return {make_plain_backend(), held, DType::kFloat32}; }

  /// These numbers, rounded to what `held` holds.
  Tensor tensor(const Shape& shape, const std::vector<float>& values, DType dtype) {
    Tensor out;
    with_float_types(held_, dtype, [&]<typename Held, typename T>(Held, T) {
      std::vector<T> rounded_values;
      for (const float value : values) {
        rounded_values.push_back(static_cast<T>(static_cast<float>(static_cast<Held>(value))));
      }
      out = Tensor::from_host(rank.context, shape, std::span<const T>(rounded_values));
    });
    return out;
  }
  Tensor random(const Shape& shape, uint32_t seed, DType dtype, float scale = 1.0F) {
    return tensor(shape, random_numbers(shape.numel(), seed, scale), dtype);
  }
  Tensor random(const Shape& shape, uint32_t seed, float scale = 1.0F) {
    return random(shape, seed, type, scale);
  }
  /// A parameter's gradient to be written or added to: in fp32 on both sides, if `wide`.
  Tensor gradient(const Shape& shape, uint32_t seed, bool wide) {
    return random(shape, seed, wide ? DType::kFloat32 : type);
  }
  Tensor statistics(const Shape& shape, const std::vector<float>& values) {
    return rank.tensor(shape, values);
  }
  Backend& backend() { return *rank.backend; }
  Stream& stream() { return rank.stream(); }

  const DType type;
  Rank rank;

 private:
  const DType held_;
};

using Kernel = std::function<std::vector<Tensor>(Side&)>;

/// What `kernel` gives on the device must be what it gives on the plain backend, but for
/// `tolerance` times an output's largest number and one rounding; and the same bits a second time.
inline void compare(DType dtype, const Kernel& kernel, float tolerance) {
  Side plain = Side::plain(dtype);
  Side device = Side::device(dtype);
  const std::vector<Tensor> expected = kernel(plain);
  const std::vector<Tensor> got = kernel(device);
  const std::vector<Tensor> again = kernel(device);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t output = 0; output < got.size(); ++output) {
    const std::vector<float> want = values_of(expected[output]);
    const std::vector<float> have = values_of(got[output]);
    const std::vector<float> repeated = values_of(again[output]);
    ASSERT_EQ(want.size(), have.size());
    EXPECT_EQ(0, std::memcmp(have.data(), repeated.data(), have.size() * sizeof(float)))
        << "output " << output;
    float largest = 0.0F;
    for (const float value : want) {
      largest = std::max(largest, std::abs(value));
    }
    for (size_t i = 0; i < have.size(); ++i) {
      const float room = tolerance * largest + rounding_of(got[output].dtype(), want[i]);
      ASSERT_TRUE(std::abs(have[i] - want[i]) <= room)
          << "output " << output << ", element " << i << ": got " << have[i] << ", expected "
          << want[i];
    }
  }
}

inline const auto kDeviceTypes =
    ::testing::Values(DType::kFloat32, DType::kBFloat16, DType::kFloat16);
inline std::string type_name(const ::testing::TestParamInfo<DType>& info) {
  return std::string(name_of(info.param));
}

}  // namespace zerolab
