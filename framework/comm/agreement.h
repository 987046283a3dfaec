#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"

namespace zerolab {

/// Every rank gives as many numbers. Throws `Error` on all of them unless they are the same
/// everywhere: "`name(index)` on rank 2 differs from rank 0's", of the first that is not.
void require_agreement(RankContext& context, Communicator& communicator,
                       const std::vector<uint64_t>& numbers,
                       const std::function<std::string(size_t index)>& name);

/// A hash of each parameter's bytes. Waits for the compute stream.
std::vector<uint64_t> hashes_of(RankContext& context, const std::vector<Parameter*>& parameters);

}  // namespace zerolab
