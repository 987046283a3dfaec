#pragma once

#include <cstdint>

#include "framework/comm/collective.h"
#include "framework/comm/local.h"
#include "framework/core/clock.h"

namespace zerolab {

/// How long `call` lasts among `size` ranks, from when all have arrived, on one that sends and
/// receives so many bytes: max(sent, received) / bandwidth + latency × rounds. `reduce` and
/// `broadcast` are pipelined chains: every rank is done only when the whole chain is, also one that
/// sends nothing.
Clock::duration link_time(const LocalOptions& link, const Collective& call, int size, int64_t sent,
                          int64_t received);

/// How late `rank` comes to its collective number `index`: random, the same in every run.
Clock::duration jitter_time(const LocalOptions& link, int rank, int64_t index);

}  // namespace zerolab
