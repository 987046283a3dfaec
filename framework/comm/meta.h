#pragma once

#include <cstdint>
#include <memory>

#include "framework/comm/communicator.h"
#include "framework/comm/local.h"

namespace zerolab {

/// A communicator of a dry run on the meta backend: rank `context.rank()` of
/// `context.world_size()`, with no peers. It counts what the real verbs would send, takes the time
/// that they would take on `link` (by default none) if all ranks came at once, and holds as many
/// bytes as the communicator that it stands for.
std::unique_ptr<Communicator> make_meta_communicator(RankContext& context, int64_t held_bytes = 0,
                                                     const LocalOptions& link = {});

}  // namespace zerolab
