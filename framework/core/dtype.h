#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "framework/core/half.h"

namespace zerolab {

/// Element types of tensors. fp64 exists for the plain backend's gradient checks; bf16 and fp16 are
/// for storage, their arithmetic is done in fp32.
enum class DType : uint8_t { kFloat32, kFloat64, kInt32, kInt64, kBFloat16, kFloat16 };

/// Bytes of an element.
constexpr int64_t size_of(DType dtype) {
  constexpr int64_t kSizes[] = {4, 8, 4, 8, 2, 2};
  return kSizes[static_cast<int>(dtype)];
}

constexpr bool is_floating(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kInt64; }

/// What a kernel's statistics (means, log-sum-exps) and losses have beside tensors of `dtype`: fp32
/// beside 16-bit ones, else the same.
constexpr DType statistics_type(DType dtype) {
  return size_of(dtype) == 2 ? DType::kFloat32 : dtype;
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"fp32", "fp64", "int32", "int64", "bf16", "fp16"};
  return kNames[static_cast<int>(dtype)];
}

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};

/// Calls `body` with a value of the C++ type of a floating `dtype`.
template <typename Body>
void with_float_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kFloat16:
      return body(Float16());
    case DType::kFloat64:
      return body(double{});
    default:
      return body(float{});
  }
}

/// The same for two dtypes.
template <typename Body>
void with_float_types(DType first, DType second, Body&& body) {
  with_float_type(first, [&]<typename T>(T) {
    with_float_type(second, [&]<typename U>(U) { body(T{}, U{}); });
  });
}

}  // namespace zerolab
