#include "framework/comm/local.h"

#include <algorithm>

#include "framework/comm/local_communicator.h"
#include "framework/comm/rendezvous.h"
#include "framework/core/error.h"
#include "framework/core/rank_context.h"

namespace zerolab {
namespace {

constexpr double kLongestTimeout = 1e8;  // seconds; more would overflow the clock

}  // namespace

LocalGroup::LocalGroup(int size, const LocalOptions& options) {
  require(size >= 1, "comm", "a group needs at least one rank; got {}", size);
  require(options.timeout_s > 0, "comm", "comm.timeout_s must be positive; got {}",
          options.timeout_s);
  rendezvous_ = std::make_unique<Rendezvous>(size, std::min(options.timeout_s, kLongestTimeout));
}

LocalGroup::~LocalGroup() = default;

int LocalGroup::size() const { return rendezvous_->size(); }

std::unique_ptr<Communicator> LocalGroup::communicator(RankContext& context) {
  require(context.world_size() == size() && context.rank() >= 0 && context.rank() < size(), "comm",
          "rank {} of {} does not belong to a group of {}", context.rank(), context.world_size(),
          size());
  return std::make_unique<LocalCommunicator>(*rendezvous_, context);
}

void LocalGroup::abort(int rank, std::string_view reason) { rendezvous_->abort(rank, reason); }

std::string LocalGroup::failure() const { return rendezvous_->failure(); }

}  // namespace zerolab
