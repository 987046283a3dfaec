#pragma once

#include <memory>

#include "framework/comm/communicator.h"

namespace zerolab {

/// A communicator of a dry run: rank `context.rank()` of `context.world_size()`, with no peers. It
/// counts what the real verbs would send.
std::unique_ptr<Communicator> make_meta_communicator(RankContext& context);

}  // namespace zerolab
