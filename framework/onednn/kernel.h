#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "framework/core/cpu_stream.h"
#include "framework/core/error.h"
#include "framework/core/tensor.h"

namespace zerolab::onednn {

/// Elements that are worth a thread's while.
inline constexpr int64_t kGrain = 32768;

/// The memory of an fp32 tensor; null for an undefined one. Every other dtype is refused.
inline float* floats(const Tensor& tensor) {
  require(tensor.dtype() == DType::kFloat32, "onednn",
          "this backend computes in fp32 only; got {}; use launch.backend = \"plain\"",
          name_of(tensor.dtype()));
  return tensor.data<float>();
}

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
template <typename Lanes, typename Value>
void put(const Lanes& lanes, float* out, Value value, bool accumulate) {
  lanes.store(out, accumulate ? lanes.load(out) + value : value);
}

}  // namespace zerolab::onednn
