#pragma once

#include <type_traits>
#include <utility>

#include "framework/core/cpu_stream.h"
#include "framework/core/dtype.h"

namespace zerolab::plain {

/// Puts `work` on a stream of the host.
template <typename Work>
void launch(Stream& stream, Work&& work) {
  static_cast<CpuStream&>(stream).launch(std::forward<Work>(work));
}

/// Calls `body` with a value of the C++ type of a floating `dtype`.
template <typename Body>
void with_float_type(DType dtype, Body&& body) {
  if (dtype == DType::kFloat64) {
    body(double{});
  } else {
    body(float{});
  }
}

/// A number of the host as an element.
template <typename T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return BFloat16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

/// Calls `body` with a value of the C++ type of a `dtype` that reductions know.
template <typename Body>
void with_communicated_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kFloat16:
      return body(Float16{});
    default:
      return body(float{});
  }
}

/// out = value, or out += value.
template <typename T>
void store(T& out, T value, bool accumulate) {
  out = accumulate ? out + value : value;
}

}  // namespace zerolab::plain
