#include "framework/comm/local.h"

#include <cmath>

#include "framework/comm/local_communicator.h"
#include "framework/comm/rendezvous.h"
#include "framework/core/error.h"
#include "framework/core/rank_context.h"

namespace zerolab {
namespace {

void require_not_negative(double value, std::string_view key) {
  require(value >= 0 && std::isfinite(value), "comm", "{} must be finite and not negative; got {}",
          key, value);
}

}  // namespace

LocalGroup::LocalGroup(int size, const LocalOptions& options) {
  require(size >= 1, "comm", "a group needs at least one rank; got {}", size);
  require(options.timeout_s > 0, "comm", "comm.timeout_s must be positive; got {}",
          options.timeout_s);
  require_not_negative(options.bandwidth_gbps, "comm.bandwidth_gbps");
  require_not_negative(options.latency_us, "comm.latency_us");
  require_not_negative(options.jitter_us, "debug.jitter");
  rendezvous_ = std::make_unique<Rendezvous>(size, options);
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
