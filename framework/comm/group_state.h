#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "framework/comm/collective.h"
#include "framework/core/recorder.h"

namespace zerolab {

/// What the exception that is being handled says.
std::string current_exception_text();

/// What the ranks of one process know of each other, whatever joins them: the first failure, and
/// who has left. Kinds of groups add how ranks meet.
class GroupState {
 public:
  /// `timeout_s`: how long a rank waits for a silent peer. Throws unless both are positive.
  GroupState(int size, double timeout_s);
  virtual ~GroupState() = default;
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;

  int size() const { return static_cast<int>(left_.size()); }
  /// See RankGroup::abort.
  void abort(int rank, std::string_view reason);
  /// Whether a rank can still be waited for.
  void enter(int rank);
  void leave(int rank);
  std::string failure();
  /// The rank whose abort was the first failure; -1: none, or a failure between the ranks.
  int failed_rank();

 protected:
  using Lock = std::unique_lock<std::mutex>;
  struct Call {
    int rank;
    const Collective& call;
  };

  /// Fails the group when someone waits for a rank that has left. Called with the lock held, as is
  /// all below.
  virtual void fail_if_missed() = 0;

  double timeout_s() const { return timeout_s_; }
  bool has_failed() const { return !failure_.empty(); }
  bool has_left(int rank) const { return left_[rank]; }
  void set_failure_of(int rank, std::string_view reason);
  /// Some of the `missed` ranks have left while another waits for them.
  void set_missed(const std::vector<bool>& missed, const Call& waiting);
  /// The `missing` ranks were not at `call` in time.
  void set_timeout(const std::vector<bool>& missing, const Collective& call);
  void set_failure(std::string text);
  /// The calls of two ranks as collective number `index` (from 1) differ. The error of all, and of
  /// the caller now.
  [[noreturn]] void fail_disagreement(int64_t index, const Call& one, const Call& other);
  [[noreturn]] void fail_all();
  /// Throws when the group has failed, as `mine.rank` hears of it, which waits at that call.
  void check(Lock& lock, const Call& mine);

  std::mutex mutex_;
  std::condition_variable changed_;  ///< notified of every failure and departure

 private:
  const double timeout_s_;
  std::vector<bool> left_;
  std::string failure_;
  Clock::time_point failed_at_;
  int failed_rank_ = -1;
};

}  // namespace zerolab
