#pragma once

#include <functional>
#include <memory>
#include <string>

#include "framework/comm/communicator.h"

namespace zerolab {

/// What the ranks of one process share: slots, a barrier with a timeout, and the abort flag.
class LocalGroup {
 public:
  /// `timeout_s`: how long a rank waits for a silent peer before it ends the run.
  explicit LocalGroup(int size, double timeout_s = 300.0);
  ~LocalGroup();

  int size() const;
  /// The communicator of `context.rank()`. Both outlive it. One a rank; called in the rank's own
  /// thread.
  std::unique_ptr<Communicator> communicator(RankContext& context);
  /// See Communicator::abort. The first call counts.
  void abort(int rank, std::string_view reason);
  /// The first failure, as "rank r: reason"; empty while all is well.
  std::string failure() const;

 private:
  friend class LocalCommunicator;
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

/// Runs `body(rank)` in one thread a rank and joins them all. A rank that throws aborts the group,
/// so that the others end too; then the first failure is thrown here. `ConfigError` stays a
/// `ConfigError`.
void run_ranks(LocalGroup& group, const std::function<void(int rank)>& body);

}  // namespace zerolab
