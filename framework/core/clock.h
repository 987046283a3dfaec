#pragma once

#include <algorithm>
#include <chrono>

namespace zerolab {

/// Of all times that are measured or modelled.
using Clock = std::chrono::steady_clock;

/// `seconds` on the clock; those that would overflow it (years) are cut.
inline Clock::duration clock_time(double seconds) {
  constexpr double kLongest = 1e8;
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

}  // namespace zerolab
