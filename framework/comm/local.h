#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/comm/communicator.h"

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

/// What the ranks of one process share: a slot for each one's call, the barriers, and the abort
/// flag. A failed group stays failed.
class LocalGroup {
 public:
  explicit LocalGroup(int size, const LocalOptions& options = {});
  ~LocalGroup();

  int size() const;
  /// The communicator of `context.rank()`. Both outlive it. One a rank; called in the rank's own
  /// thread.
  std::unique_ptr<Communicator> communicator(RankContext& context);
  /// See Communicator::abort. The first rank counts; that rank may give its reason again, better.
  void abort(int rank, std::string_view reason);
  /// The first failure, as "rank r failed: reason", or what was wrong between the ranks; empty
  /// while all is well.
  std::string failure() const;

 private:
  friend void run_ranks(LocalGroup& group, const std::function<void(int rank)>& body);
  std::unique_ptr<Rendezvous> rendezvous_;
};

/// Runs `body(rank)` in one thread a rank (also for a single one) and joins them all. A rank that
/// throws aborts the group, so that the others end too; then the failure that came first is thrown
/// here, as it was: a `ConfigError` stays a `ConfigError`. A rank that returns has left: a peer
/// that waits for it fails at once. Streams that a rank's verbs are on have ended when its body
/// returns.
void run_ranks(LocalGroup& group, const std::function<void(int rank)>& body);

}  // namespace zerolab
