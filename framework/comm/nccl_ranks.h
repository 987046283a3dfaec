#pragma once

#include <nccl.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "framework/comm/group_state.h"
#include "framework/comm/nccl.h"
#include "framework/core/stream.h"

namespace zerolab {

/// What the ranks of a group that NCCL joins share: a board to which each posts its calls, so
/// that different ones are found without waiting; and the ranks' NCCL communicators. A thread of
/// its own looks for verbs that take too long and for errors of NCCL's; when the group has failed,
/// for whatever reason, it aborts all communicators, so that what hangs on a device ends and host
/// waits return. These then ask `check`.
class NcclRanks final : public GroupState {
 public:
  /// A verb on its way: between `begin` and `end` on its stream.
  struct Verb {
    int64_t index;
    Collective call;
    StreamTime begin;
    std::optional<StreamTime> end;  ///< none while the host is at it

    bool has_ended() const { return end.has_value() && end->get().has_value(); }
  };

  NcclRanks(int size, const NcclOptions& options);
  ~NcclRanks() override;

  /// `rank` has come, in its own thread, on the current device; throws when that is another's too.
  void join(int rank);
  /// Posts `rank`'s next call. Throws when the group has failed, also when this call makes it
  /// fail.
  void begin(int rank, const Collective& call, const StreamTime& begin);
  void end(int rank, const StreamTime& end);
  /// The verbs of `rank` that have ended, in order, each once.
  std::vector<Verb> take_ended(int rank);

  /// Runs `work` with `rank`'s communicator and returns when NCCL has put it on its streams; throws
  /// when it cannot, or the group fails meanwhile.
  using Work = std::function<ncclResult_t(ncclComm_t communicator)>;
  void call_nccl(int rank, const Work& work);

  /// Throws when the group has failed. Nothing of it is on a device any more then.
  void check(int rank);

 private:
  /// A call that not all ranks have made yet.
  struct Posted {
    int first_rank;
    Collective call;
    int num_ranks;
  };
  /// One rank's.
  struct Seat {
    int device = -1;
    int64_t calls = 0;
    std::deque<Verb> verbs;
    Collective waits_at;   ///< its last call; once the group has ended, what was under way then
    int64_t watched = -1;  ///< the verb that is under way, and …
    Clock::time_point since;

    /// The first verb that has not ended; null if none.
    const Verb* under_way() const;

    std::mutex in_use;  ///< held for each call of NCCL
    std::atomic<ncclComm_t> communicator = nullptr;
    std::atomic<bool> aborted = false;
  };

  void fail_if_missed() override;
  /// Makes `rank`'s communicator.
  void connect(int rank);
  /// Calls NCCL and returns when that is no longer in progress.
  void complete(int rank, const std::function<ncclResult_t(Seat& seat)>& work);
  void watch();
  /// Looks for reasons to fail the group; with the lock held, as the next ones.
  void look_at(int rank);
  void look_at_time(int rank, const Verb& verb);
  void look_at_errors(int rank, const Verb& verb);
  /// The device of `rank` has come to its verb `index`.
  bool has_arrived(int rank, int64_t index) const;
  /// Aborts all communicators.
  void end_all(Lock& lock);

  std::vector<Seat> seats_;
  std::deque<Posted> board_;
  int64_t first_posted_ = 0;  ///< the index of the board's first call
  const std::unique_ptr<UniqueIdExchange> exchange_;
  bool ended_ = false;  ///< the group has failed, and all communicators have been aborted
  bool stop_ = false;
  std::thread watcher_;
};

}  // namespace zerolab
