#pragma once

#include <cstdint>
#include <memory>

#include "framework/comm/communicator.h"

namespace zerolab {

/// A communicator of a dry run: rank `context.rank()` of `context.world_size()`, with no peers. It
/// counts what the real verbs would send, and holds as many bytes as the communicator that it
/// stands for.
std::unique_ptr<Communicator> make_meta_communicator(RankContext& context, int64_t held_bytes = 0);

}  // namespace zerolab
