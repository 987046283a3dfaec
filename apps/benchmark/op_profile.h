#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace zerolab::bench {

/// A kernel at its shapes; extents beyond the last are 0.
struct OpKey {
  std::string_view name;  ///< static storage
  std::array<int64_t, 3> extents = {};

  auto operator<=>(const OpKey&) const = default;
};

/// What all calls of a kernel cost together, and what they had to do.
struct OpCost {
  int64_t calls = 0;
  double seconds = 0.0;
  double flops = 0.0;  ///< of products; 0 for kernels that memory limits
  double bytes = 0.0;  ///< every operand once
};

/// The costs of one rank's kernels since the last `take`. Thread-safe.
class OpProfile {
 public:
  using Costs = std::map<OpKey, OpCost>;

  void add(const OpKey& key, const OpCost& cost) {
    const std::lock_guard lock(mutex_);
    OpCost& sum = costs_[key];
    sum.calls += cost.calls;
    sum.seconds += cost.seconds;
    sum.flops += cost.flops;
    sum.bytes += cost.bytes;
  }

  Costs take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(costs_, {});
  }

 private:
  std::mutex mutex_;
  Costs costs_;
};

}  // namespace zerolab::bench
