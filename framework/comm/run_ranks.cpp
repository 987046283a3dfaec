#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "framework/comm/group_state.h"
#include "framework/comm/rank_group.h"
#include "framework/core/error.h"

namespace zerolab {
namespace {

/// What ended each rank, and which of them came first.
class Failures {
 public:
  explicit Failures(int size) : errors_(size) {}

  void add(int rank, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    errors_[rank] = std::move(error);
    if (first_ < 0) {
      first_ = rank;
    }
  }

  /// The error of `culprit` if it has one: while it unwound, ranks that it failed may have reported
  /// before it. Else the first error.
  std::exception_ptr first(int culprit) const {
    if (culprit >= 0 && errors_[culprit] != nullptr) {
      return errors_[culprit];
    }
    return first_ < 0 ? nullptr : errors_[first_];
  }

 private:
  std::mutex mutex_;
  std::vector<std::exception_ptr> errors_;
  int first_ = -1;
};

}  // namespace

void run_ranks(RankGroup& group, const std::function<void(int rank)>& body) {
  GroupState& ranks = group.state();
  Failures failures(ranks.size());
  const auto run_rank = [&](int rank) {
    try {
      body(rank);
    } catch (...) {
      failures.add(rank, std::current_exception());
      ranks.abort(rank, current_exception_text());
    }
    ranks.leave(rank);
  };
  for (int rank = 0; rank < ranks.size(); ++rank) {
    ranks.enter(rank);
  }
  {
    std::vector<std::jthread> threads;
    try {
      for (int rank = 0; rank < ranks.size(); ++rank) {
        threads.emplace_back(run_rank, rank);
      }
    } catch (const std::exception& error) {
      ranks.abort(static_cast<int>(threads.size()), error.what());
      throw;
    }
  }
  if (const std::exception_ptr error = failures.first(ranks.failed_rank())) {
    std::rethrow_exception(error);
  }
  require(ranks.failure().empty(), "comm", "{}", ranks.failure());
}

}  // namespace zerolab
