#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "framework/comm/communicator.h"

namespace zerolab {

class GroupState;

/// The ranks that work together, threads of this process. A failed group stays failed.
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  int size() const;
  /// The communicator of `context.rank()`. The group and the context outlive it. One a rank; called
  /// in the rank's own thread.
  std::unique_ptr<Communicator> communicator(RankContext& context);
  /// See Communicator::abort. The first rank counts; that rank may give its reason again, better.
  void abort(int rank, std::string_view reason);
  /// The first failure, as "rank r failed: reason", or what was wrong between the ranks; empty
  /// while all is well.
  std::string failure() const;

 private:
  friend void run_ranks(RankGroup& group, const std::function<void(int rank)>& body);
  virtual GroupState& state() const = 0;
  virtual std::unique_ptr<Communicator> make_communicator(RankContext& context) = 0;
};

/// Runs `body(rank)` in one thread a rank (also for a single one) and joins them all. A rank that
/// throws aborts the group, so that the others end too; then the failure that came first is thrown
/// here, as it was: a `ConfigError` stays a `ConfigError`. A rank that returns has left: a peer
/// that waits for it fails at once. Streams that a rank's verbs are on have ended when its body
/// returns.
void run_ranks(RankGroup& group, const std::function<void(int rank)>& body);

}  // namespace zerolab
