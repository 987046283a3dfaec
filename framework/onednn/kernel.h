#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "framework/core/cpu_stream.h"
#include "framework/core/error.h"
#include "framework/onednn/vector.h"
#include "framework/tensor/tensor.h"

namespace zerolab::onednn {

/// Elements that are worth a thread's while.
inline constexpr int64_t kGrain = 32768;
/// Columns that are summed in registers, down all rows.
inline constexpr int64_t kColumnVectors = 8;
inline constexpr int64_t kColumns = kColumnVectors * kLanes;

/// Calls `body` with a value of the C++ type of a dtype that this backend stores. Every other is
/// refused.
template <typename Body>
auto with_type(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kFloat16:
      return body(Float16());
    default:
      fail("onednn",
           "this backend computes in fp32, bf16 and fp16; got {}; use launch.backend = \"plain\"",
           name_of(dtype));
  }
}

/// `with_type` of two.
template <typename Body>
void with_types(DType first, DType second, Body&& body) {
  with_type(first, [&](auto a) { with_type(second, [&](auto b) { body(a, b); }); });
}

/// The memory of a tensor of T; null for an undefined one. Every other dtype is refused.
template <typename T>
T* elements(const Tensor& tensor) {
  require(!tensor.defined() || tensor.dtype() == DTypeOf<T>::value, "onednn",
          "wrong element type; got {}, expected {}", name_of(tensor.dtype()),
          name_of(DTypeOf<T>::value));
  return tensor.data<T>();
}
inline float* floats(const Tensor& tensor) { return elements<float>(tensor); }

/// Threads for work on `stream`: the rank's own where it runs at once in the rank's thread. A
/// worker's thread stays alone, so that communication does not start a second team beside the
/// computing one.
inline int threads_for(Stream& stream) {
  return static_cast<CpuStream&>(stream).is_immediate() ? omp_get_max_threads() : 1;
}

/// Calls `body(begin, end)` for chunks of [0, count) of `grain` each, in any order.
template <typename Body>
void parallel_chunks(int threads, int64_t count, int64_t grain, const Body& body) {
  const int64_t chunks = (count + grain - 1) / grain;
  if (threads <= 1 || chunks <= 1) {
    body(int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    body(chunk * grain, std::min((chunk + 1) * grain, count));
  }
}

/// Puts `parallel_chunks` on a stream.
template <typename Body>
void launch_chunks(Stream& stream, int64_t count, int64_t grain, Body&& body) {
  static_cast<CpuStream&>(stream).launch(
      [threads = threads_for(stream), count, grain, body = std::forward<Body>(body)] {
        parallel_chunks(threads, count, grain, body);
      });
}

/// Rows of `cols` elements that are worth a thread's while.
inline int64_t row_grain(int64_t cols) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cols));
}

/// Throws unless all of `indices` are within [0, bound).
inline void require_within(const int32_t* indices, int64_t count, int64_t bound,
                           std::string_view component) {
  for (int64_t i = 0; i < count; ++i) {
    require(indices[i] >= 0 && indices[i] < bound, component,
            "an index is outside the vocabulary; got {}, expected within [0, {})", indices[i],
            bound);
  }
}

/// out = value, or out += value, in the lanes that `lanes` has.
template <typename Lanes, typename T, typename Value>
void put(const Lanes& lanes, T* out, Value value, bool accumulate) {
  lanes.store(out, accumulate ? lanes.load(out) + value : value);
}

/// Where a kernel writes a parameter's gradient, which may be of another dtype than what it is made
/// of. Nowhere, where the tensor is undefined.
class ParameterGradient {
 public:
  explicit ParameterGradient(const Tensor& tensor) : memory_(tensor.raw()), dtype_(tensor.dtype()) {
    with_type(dtype_, [](auto) {});  // refuses what it does not store
  }

  bool defined() const { return memory_ != nullptr; }
  /// Elements from `at` on.
  template <typename Lanes>
  Vector load(const Lanes& lanes, int64_t at) const {
    return with_type(dtype_, [&]<typename T>(T) {
      return lanes.load(reinterpret_cast<const T*>(memory_) + at);
    });
  }
  template <typename Lanes>
  void put(const Lanes& lanes, int64_t at, Vector value, bool accumulate) const {
    with_type(dtype_, [&]<typename T>(T) {
      onednn::put(lanes, reinterpret_cast<T*>(memory_) + at, value, accumulate);
    });
  }

 private:
  std::byte* memory_;
  DType dtype_;
};

}  // namespace zerolab::onednn
