#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace zerolab {

/// Element types of tensors. fp64 exists for the plain backend's gradient checks.
enum class DType : uint8_t { kFloat32, kFloat64, kInt32, kInt64 };

constexpr int64_t size_of(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kInt64 ? 8 : 4;
}

constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view kNames[] = {"fp32", "fp64", "int32", "int64"};
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

}  // namespace zerolab
