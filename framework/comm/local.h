#pragma once

#include <cstdint>
#include <memory>

#include "framework/comm/rank_group.h"

namespace zerolab {

class Rendezvous;

/// How the ranks of a `LocalGroup` meet, and the network that they pretend to have.
struct LocalOptions {
  double timeout_s = 300.0;     ///< how long a rank waits for a silent peer before it ends the run
  double bandwidth_gbps = 0.0;  ///< 1e9 bits a second in each direction; 0: as fast as memory
  double latency_us = 0.0;      ///< of each round of a collective (comm/link.h)
  double jitter_us = 0.0;       ///< a rank comes up to so much late to each collective
  uint64_t jitter_seed = 0;
};

/// Ranks that share memory: each reads its peers' buffers. What they share is a slot for each one's
/// call, the barriers, and the abort flag.
class LocalGroup final : public RankGroup {
 public:
  explicit LocalGroup(int size, const LocalOptions& options = {});
  ~LocalGroup() override;

 private:
  GroupState& state() const override;
  std::unique_ptr<Communicator> make_communicator(RankContext& context) override;

  std::unique_ptr<Rendezvous> rendezvous_;
};

}  // namespace zerolab
