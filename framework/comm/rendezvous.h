#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "framework/comm/collective.h"
#include "framework/comm/local.h"
#include "framework/core/recorder.h"

namespace zerolab {

/// What the exception that is being handled says.
std::string current_exception_text();

/// Where the ranks of a process meet for a collective. It has two barriers. At the first, ranks
/// arrive with their calls; until the last has come, an abort, a timeout or a departure ends the
/// wait. The last one compares the calls: from then on the collective is committed, nothing can
/// interrupt it, and peers may read a buffer until the second barrier: a rank that fails meanwhile
/// cannot free memory under them. What then remains of its time on the modelled link is slept,
/// until an abort.
class Rendezvous {
 public:
  struct Result {
    Clock::time_point arrived;
    Clock::time_point all_arrived;
    int64_t sent = 0;
    int64_t received = 0;
  };

  Rendezvous(int size, const LocalOptions& options);

  int size() const { return static_cast<int>(calls_.size()); }
  /// Takes part in the next collective as `rank`, in the calling thread; returns when no peer needs
  /// this rank's buffer any more.
  Result run(int rank, const Collective& call, Backend& backend);
  void abort(int rank, std::string_view reason);
  /// Whether a rank can still be waited for.
  void enter(int rank);
  void leave(int rank);
  std::string failure();
  /// The rank whose abort was the first failure; -1: none, or a failure between the ranks.
  int failed_rank();

 private:
  using Lock = std::unique_lock<std::mutex>;

  void arrive(Lock& lock, int rank);
  void commit();
  void wait_for_peers(Lock& lock, int rank);
  void wait_until_all_have_moved();
  /// Returns earlier when the group fails.
  void sleep_until(Lock& lock, Clock::time_point time);
  /// Moves the parts of `ranks` ranks from `begin` on; returns what went wrong.
  std::string move_parts(int begin, int ranks, Backend& backend);
  /// Fails the group when someone waits for a rank that has left.
  void fail_if_missed();
  /// Ends all verbs with this error, and this one now.
  [[noreturn]] void fail_all(std::string text);
  void set_failure(std::string text);
  void set_failure_of(int rank, std::string_view reason);
  /// Throws when the group has failed.
  void check(Lock& lock, int rank);

  const LocalOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Collective> calls_;
  std::vector<Traffic> traffic_;
  std::vector<bool> arrived_;
  std::vector<bool> left_;
  int num_arrived_ = 0;
  int num_moved_ = 0;
  int64_t committed_ = 0;  ///< collectives
  int64_t completed_ = 0;  ///< collectives that had a second barrier
  Clock::time_point all_arrived_;
  std::atomic<bool> failed_ = false;  ///< atomic so that a verb's end need not take the lock
  std::string failure_;
  Clock::time_point failed_at_;
  int failed_rank_ = -1;
};

}  // namespace zerolab
