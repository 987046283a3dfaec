#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/comm/communicator.h"

namespace zerolab {

/// Every rank gives as many numbers, which must be the same on all of them. Returns the index of
/// the first that is not, and a rank where it differs from rank 0's; nothing in a dry run.
struct Disagreement {
  int64_t index = 0;
  int rank = 0;
};
std::optional<Disagreement> find_disagreement(RankContext& context, Communicator& communicator,
                                              const std::vector<uint64_t>& numbers);

}  // namespace zerolab
