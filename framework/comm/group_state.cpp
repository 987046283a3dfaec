#include "framework/comm/group_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "framework/core/error.h"

namespace zerolab {
namespace {

// So long a failed rank's peers wait for it to leave, with a better reason than kUnknownException.
constexpr std::chrono::seconds kReasonTime{2};

std::string list_of_ranks(const std::vector<bool>& chosen) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < chosen.size(); ++rank) {
    if (chosen[rank]) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

GroupState::GroupState(int size, double timeout_s) : timeout_s_(timeout_s) {
  require(size >= 1, "comm", "a group needs at least one rank; got {}", size);
  require(timeout_s > 0, "comm", "comm.timeout_s must be positive; got {}", timeout_s);
  left_.resize(size);
}

void GroupState::abort(int rank, std::string_view reason) {
  const Lock lock(mutex_);
  set_failure_of(rank, reason);
}

void GroupState::enter(int rank) {
  const Lock lock(mutex_);
  left_[rank] = false;
}

void GroupState::leave(int rank) {
  const Lock lock(mutex_);
  left_[rank] = true;
  fail_if_missed();
  changed_.notify_all();
}

std::string GroupState::failure() {
  const Lock lock(mutex_);
  return failure_;
}

int GroupState::failed_rank() {
  const Lock lock(mutex_);
  return failed_rank_;
}

void GroupState::set_failure_of(int rank, std::string_view reason) {
  // A rank that fails by what it gave as its own reason adds nothing.
  const bool better =
      failed_rank_ == rank && reason != kUnknownException && !reason.ends_with(failure_);
  if (failure_.empty() || better) {
    failed_rank_ = rank;
    set_failure(fmt::format("rank {} failed: {}", rank, reason));
  }
}

void GroupState::set_missed(const std::vector<bool>& missed, const Call& waiting) {
  if (failure_.empty() && std::ranges::count(missed, true) > 0) {
    set_failure(
        fmt::format("{} left the group while rank {} waits at {}; all ranks must make the same "
                    "calls",
                    list_of_ranks(missed), waiting.rank, describe(waiting.call)));
  }
}

void GroupState::set_timeout(const std::vector<bool>& missing, const Collective& call) {
  set_failure(fmt::format(
      "{} did not arrive at {} within {} s; a rank that is only slow needs a longer comm.timeout_s",
      list_of_ranks(missing), name_of(call), timeout_s_));
}

void GroupState::set_failure(std::string text) {
  failure_ = std::move(text);
  failed_at_ = Clock::now();
  changed_.notify_all();
}

void GroupState::fail_disagreement(int64_t index, const Call& one, const Call& other) {
  const auto& [first, second] = one.rank < other.rank ? std::tie(one, other) : std::tie(other, one);
  set_failure(fmt::format(
      "ranks disagree at collective {}: rank {} calls {}, rank {} calls {}; all ranks must make "
      "the same calls in the same order",
      index, first.rank, describe(first.call), second.rank, describe(second.call)));
  fail_all();
}

void GroupState::fail_all() { throw Error("comm", failure_); }

void GroupState::check(Lock& lock, const Call& mine) {
  if (failure_.empty()) {
    return;
  }
  if (failed_rank_ < 0 || failed_rank_ == mine.rank) {
    fail_all();
  }
  changed_.wait_until(lock, failed_at_ + kReasonTime, [&] { return left_[failed_rank_]; });
  throw Error("comm",
              fmt::format("{}; rank {} waited at {}", failure_, mine.rank, name_of(mine.call)));
}

}  // namespace zerolab
