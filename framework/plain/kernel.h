#pragma once

#include <utility>

#include "framework/core/cpu_stream.h"
#include "framework/core/dtype.h"

namespace zerolab::plain {

/// Puts `work` on a stream of the host.
template <typename Work>
void launch(Stream& stream, Work&& work) {
  static_cast<CpuStream&>(stream).launch(std::forward<Work>(work));
}

/// out = value, or out += value: added in what the two are computed in, and rounded once.
template <typename T, typename Number>
void store(T& out, Number value, bool accumulate) {
  using Sum = Compute<T, Number>;
  out = rounded<T>(accumulate ? Sum(widened(out)) + value : Sum(value));
}

}  // namespace zerolab::plain
