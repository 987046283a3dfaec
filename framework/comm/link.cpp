#include "framework/comm/link.h"

#include <algorithm>

#include "framework/core/philox.h"

namespace zerolab {

Clock::duration link_time(const LocalOptions& link, const Collective& call, int size, int64_t sent,
                          int64_t received) {
  if (size == 1) {
    return Clock::duration::zero();
  }
  const bool chain = call.op == CollectiveOp::kReduce || call.op == CollectiveOp::kBroadcast;
  const int64_t bytes = chain ? call.numel * size_of(call.dtype) : std::max(sent, received);
  const int rounds = (call.op == CollectiveOp::kAllReduce ? 2 : 1) * (size - 1);
  double seconds = link.latency_us * 1e-6 * rounds;
  if (link.bandwidth_gbps > 0) {
    seconds += static_cast<double>(bytes) * 8 / (link.bandwidth_gbps * 1e9);
  }
  return clock_time(seconds);
}

Clock::duration jitter_time(const LocalOptions& link, int rank, int64_t index) {
  const uint32_t bits = philox(link.jitter_seed, rank, index)[0];
  return clock_time(uniform_from_bits(bits) * link.jitter_us * 1e-6);
}

}  // namespace zerolab
