#pragma once

#include <string>
#include <vector>

#include "framework/comm/collective.h"
#include "framework/comm/group_state.h"
#include "framework/comm/local.h"
#include "framework/core/recorder.h"

namespace zerolab {

/// Where the ranks of a process meet for a collective. It has two barriers. At the first, ranks
/// arrive with their calls; until the last has come, an abort, a timeout or a departure ends the
/// wait. The last one compares the calls: from then on the collective is committed, nothing can
/// interrupt it, and peers may read a buffer until the second barrier: a rank that fails meanwhile
/// cannot free memory under them. It then succeeds on all ranks, or a kernel failed and it
/// fails on all. What remains of its time on the modelled link is slept; an abort ends the sleep,
/// and is thrown at the next collective.
class Rendezvous final : public GroupState {
 public:
  struct Result {
    Clock::time_point arrived;
    Clock::time_point all_arrived;
    int64_t sent = 0;
    int64_t received = 0;
  };

  Rendezvous(int size, const LocalOptions& options);

  /// Takes part in the next collective as `rank`, in the calling thread; returns when no peer needs
  /// this rank's buffer any more.
  Result run(int rank, const Collective& call, Backend& backend);

 private:
  void arrive(Lock& lock, int rank);
  void commit();
  void wait_for_peers(Lock& lock, int rank);
  void wait_until_all_have_moved();
  /// Returns earlier when the group fails.
  void sleep_until(Lock& lock, Clock::time_point time);
  /// Moves the parts of `ranks` ranks from `begin` on; returns what went wrong.
  std::string move_parts(int begin, int ranks, Backend& backend);
  void fail_if_missed() override;
  /// A kernel of `rank` failed within the committed collective.
  void set_broken(int rank, std::string_view reason);

  const LocalOptions options_;
  std::vector<Collective> calls_;
  std::vector<Traffic> traffic_;
  std::vector<bool> arrived_;
  int num_arrived_ = 0;
  int num_moved_ = 0;
  int64_t committed_ = 0;  ///< collectives
  int64_t completed_ = 0;  ///< collectives that had a second barrier
  Clock::time_point all_arrived_;
  bool broken_ = false;  ///< the committed collective went wrong, and the group with it
};

}  // namespace zerolab
