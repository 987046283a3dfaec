#include "framework/comm/local.h"

#include <cmath>

#include "framework/comm/local_communicator.h"
#include "framework/comm/rendezvous.h"
#include "framework/core/error.h"

namespace zerolab {
namespace {

void require_not_negative(double value, std::string_view key) {
  require(value >= 0 && std::isfinite(value), "comm", "{} must be finite and not negative; got {}",
          key, value);
}

}  // namespace

LocalGroup::LocalGroup(int size, const LocalOptions& options) {
  require_not_negative(options.bandwidth_gbps, "comm.bandwidth_gbps");
  require_not_negative(options.latency_us, "comm.latency_us");
  require_not_negative(options.jitter_us, "debug.jitter");
  rendezvous_ = std::make_unique<Rendezvous>(size, options);
}

LocalGroup::~LocalGroup() = default;

GroupState& LocalGroup::state() const { return *rendezvous_; }

std::unique_ptr<Communicator> LocalGroup::make_communicator(RankContext& context) {
  return std::make_unique<LocalCommunicator>(*rendezvous_, context);
}

}  // namespace zerolab
