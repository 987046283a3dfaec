#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "framework/onednn/backend.h"
#include "tests/framework/onednn_rank.h"

// The 16-bit kernels of the fast CPU backend against its own fp32 ones on the same numbers.

namespace zerolab::test::onednn {

inline constexpr DType kFloat32 = DType::kFloat32;

/// `body` with a value of the C++ type of bf16 or fp16.
template <typename Body>
auto with_half(DType half, Body&& body) {
  return half == DType::kBFloat16 ? body(BFloat16{}) : body(Float16{});
}

inline float rounded(DType half, float value) {
  return with_half(half, [&]<typename T>(T) { return static_cast<float>(static_cast<T>(value)); });
}

/// The largest error of one rounding of `value`.
inline float rounding_of(DType half, float value) {
  return half == DType::kBFloat16 ? std::abs(value) * 0x1p-8F
                                  : std::abs(value) * 0x1p-11F + 0x1p-25F;
}

inline Tensor tensor_of(Rank& rank, const Shape& shape, DType dtype,
                        const std::vector<float>& values) {
  if (dtype == kFloat32) {
    return rank.tensor(shape, values);
  }
  return with_half(dtype, [&]<typename T>(T) {
    std::vector<T> narrow;
    for (const float value : values) {
      narrow.push_back(static_cast<T>(value));
    }
    return Tensor::from_host(rank.context, shape, std::span<const T>(narrow));
  });
}

inline std::vector<float> values_of(const Tensor& tensor) {
  if (tensor.dtype() == kFloat32) {
    return tensor.to_host<float>();
  }
  return with_half(tensor.dtype(), [&]<typename T>(T) {
    std::vector<float> values;
    for (const T value : tensor.to_host<T>()) {
      values.push_back(static_cast<float>(value));
    }
    return values;
  });
}

/// What a kernel under test runs in: tensors "of T" are of 16 bits, or, for the expected result,
/// fp32 with the same numbers in them.
class TypedRank {
 public:
  TypedRank(DType half, DType type, int threads)
      : type(type), rank(make_onednn_backend(), threads), half_(half) {}

  /// Numbers that T holds, as T.
  Tensor random(const Shape& shape, uint32_t seed, float scale = 1.0F) {
    return random(shape, seed, type, scale);
  }
  /// The same numbers as another dtype.
  Tensor random(const Shape& shape, uint32_t seed, DType dtype, float scale = 1.0F) {
    std::vector<float> values = random_numbers(shape.numel(), seed, scale);
    for (float& value : values) {
      value = rounded(half_, value);
    }
    return tensor_of(rank, shape, dtype, values);
  }
  Backend& backend() { return *rank.backend; }
  Stream& stream() { return rank.stream(); }

  const DType type;  ///< T
  Rank rank;

 private:
  const DType half_;
};

using Kernel = std::function<std::vector<Tensor>(TypedRank&)>;

class OnednnHalf : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!onednn_is_available()) {
      GTEST_SKIP() << "built without oneDNN";
    }
  }

  static DType half() { return GetParam(); }

  /// Outputs of T must be those of fp32, rounded once, and outputs of fp32 the same; but for
  /// `tolerance` times the largest. With one thread the same bits as with two, if `same_bits`.
  static void compare(const Kernel& kernel, float tolerance = 0.0F, bool same_bits = true) {
    TypedRank wide(half(), kFloat32, 2);
    TypedRank narrow(half(), half(), 2);
    TypedRank alone(half(), half(), 1);
    const auto expected = kernel(wide);
    const auto got = kernel(narrow);
    const auto got_alone = kernel(alone);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t output = 0; output < got.size(); ++output) {
      const std::vector<float> want = values_of(expected[output]);
      const std::vector<float> have = values_of(got[output]);
      ASSERT_EQ(want.size(), have.size());
      const bool narrowed = got[output].dtype() == half();
      float largest = 0.0F;
      for (const float value : want) {
        ASSERT_TRUE(std::isfinite(value));
        largest = std::max(largest, std::abs(value));
      }
      for (size_t i = 0; i < have.size(); ++i) {
        const float exact = narrowed ? rounded(half(), want[i]) : want[i];
        const float room = tolerance * largest + (narrowed ? rounding_of(half(), want[i]) : 0.0F);
        ASSERT_TRUE(tolerance == 0.0F ? have[i] == exact : std::abs(have[i] - want[i]) <= room)
            << "output " << output << ", element " << i << ": got " << have[i] << ", expected "
            << want[i];
      }
      if (same_bits) {
        EXPECT_EQ(0, std::memcmp(got[output].raw(), got_alone[output].raw(), got[output].bytes()))
            << "output " << output;
      }
    }
  }
};

}  // namespace zerolab::test::onednn
