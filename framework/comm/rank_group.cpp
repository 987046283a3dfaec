#include "framework/comm/rank_group.h"

#include "framework/comm/group_state.h"
#include "framework/core/error.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {

int RankGroup::size() const { return state().size(); }

std::unique_ptr<Communicator> RankGroup::communicator(RankContext& context) {
  require(context.world_size() == size() && context.rank() >= 0 && context.rank() < size(), "comm",
          "rank {} of {} does not belong to a group of {}", context.rank(), context.world_size(),
          size());
  return make_communicator(context);
}

void RankGroup::abort(int rank, std::string_view reason) { state().abort(rank, reason); }

std::string RankGroup::failure() const { return state().failure(); }

}  // namespace zerolab
