#include "framework/comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/comm/link.h"
#include "framework/core/error.h"

namespace zerolab {
namespace {

// A wake-up of every rank costs more than moving so few bytes: the last rank that arrives moves
// them for all, and the second barrier falls away.
constexpr int64_t kMovedByLast = 16 << 10;

constexpr std::chrono::seconds kReasonTime{1};

bool has_second_barrier(const Collective& call) {
  return call.numel * size_of(call.dtype) > kMovedByLast;
}

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

Rendezvous::Rendezvous(int size, const LocalOptions& options)
    : options_(options), calls_(size), traffic_(size), arrived_(size), left_(size) {}

Rendezvous::Result Rendezvous::run(int rank, const Collective& call, Backend& backend) {
  Result result;
  Lock lock(mutex_);
  calls_[rank] = call;
  if (options_.jitter_us > 0) {
    sleep_until(lock, Clock::now() + jitter_time(options_, rank, committed_));
  }
  result.arrived = Clock::now();
  arrive(lock, rank);
  if (num_arrived_ == size()) {
    commit();
    if (!has_second_barrier(call)) {
      if (const std::string error = move_parts(0, size(), backend); !error.empty()) {
        set_failure_of(rank, error);
      }
    }
    lock.unlock();
    changed_.notify_all();
  } else {
    wait_for_peers(lock, rank);
    lock.unlock();
  }
  result.all_arrived = all_arrived_;
  if (has_second_barrier(call)) {
    if (const std::string error = move_parts(rank, 1, backend); !error.empty()) {
      abort(rank, error);
    }
    wait_until_all_have_moved();
  }
  result.sent = traffic_[rank].sent;
  result.received = traffic_[rank].received;
  const Clock::duration duration = link_time(options_, call, size(), result.sent, result.received);
  if (duration > Clock::duration::zero() || failed_) {
    lock.lock();
    sleep_until(lock, result.all_arrived + duration);
    check(lock, rank);
  }
  return result;
}

void Rendezvous::arrive(Lock& lock, int rank) {
  traffic_[rank].sent = 0;
  traffic_[rank].received = 0;
  arrived_[rank] = true;
  ++num_arrived_;
  fail_if_missed();
  check(lock, rank);
}

void Rendezvous::commit() {
  for (int rank = 1; rank < size(); ++rank) {
    if (!same_call(calls_[0], calls_[rank])) {
      fail_all(fmt::format(
          "ranks disagree at collective {}: rank 0 calls {}, rank {} calls {}; all ranks must make "
          "the same calls in the same order",
          committed_ + 1, describe(calls_[0]), rank, describe(calls_[rank])));
    }
  }
  arrived_.assign(size(), false);
  num_arrived_ = 0;
  ++committed_;
  all_arrived_ = Clock::now();
}

std::string Rendezvous::move_parts(int begin, int ranks, Backend& backend) {
  try {
    for (int rank = begin; rank < begin + ranks; ++rank) {
      move_part(rank, calls_, backend, traffic_);
    }
  } catch (...) {
    return fmt::format("{} in {}", current_exception_text(), name_of(calls_[begin]));
  }
  return {};
}

void Rendezvous::wait_for_peers(Lock& lock, int rank) {
  const int64_t before = committed_;
  changed_.wait_until(lock, Clock::now() + clock_time(options_.timeout_s),
                      [&] { return committed_ != before || failed_; });
  if (committed_ != before) {
    return;
  }
  check(lock, rank);
  std::vector<bool> missing = arrived_;
  missing.flip();
  fail_all(fmt::format(
      "{} did not arrive at {} within {} s; a rank that is only slow needs a longer comm.timeout_s",
      list_of_ranks(missing), name_of(calls_[rank]), options_.timeout_s));
}

void Rendezvous::wait_until_all_have_moved() {
  Lock lock(mutex_);
  if (++num_moved_ == size()) {
    num_moved_ = 0;
    ++completed_;
    lock.unlock();
    changed_.notify_all();
    return;
  }
  const int64_t before = completed_;
  changed_.wait(lock, [&] { return completed_ != before; });
}

void Rendezvous::sleep_until(Lock& lock, Clock::time_point time) {
  changed_.wait_until(lock, time, [&] { return failed_.load(); });
}

void Rendezvous::abort(int rank, std::string_view reason) {
  const Lock lock(mutex_);
  set_failure_of(rank, reason);
}

void Rendezvous::enter(int rank) {
  const Lock lock(mutex_);
  left_[rank] = false;
}

void Rendezvous::leave(int rank) {
  const Lock lock(mutex_);
  left_[rank] = true;
  fail_if_missed();
  changed_.notify_all();
}

std::string Rendezvous::failure() {
  const Lock lock(mutex_);
  return failure_;
}

int Rendezvous::failed_rank() {
  const Lock lock(mutex_);
  return failed_rank_;
}

void Rendezvous::fail_if_missed() {
  std::vector<bool> missed(size());
  for (int rank = 0; rank < size(); ++rank) {
    missed[rank] = left_[rank] && !arrived_[rank];
  }
  const auto waiting = std::find(arrived_.begin(), arrived_.end(), true);
  if (!failed_ && waiting != arrived_.end() && std::ranges::count(missed, true) > 0) {
    const auto rank = waiting - arrived_.begin();
    set_failure(fmt::format(
        "{} left the group while rank {} waits at {}; all ranks must make the same calls",
        list_of_ranks(missed), rank, describe(calls_[rank])));
  }
}

void Rendezvous::set_failure(std::string text) {
  failure_ = std::move(text);
  failed_ = true;
  failed_at_ = Clock::now();
  changed_.notify_all();
}

void Rendezvous::set_failure_of(int rank, std::string_view reason) {
  // A rank that fails by what it gave as its own reason adds nothing.
  const bool better = failed_rank_ == rank && !reason.ends_with(failure_);
  if (!failed_ || better) {
    failed_rank_ = rank;
    set_failure(fmt::format("rank {} failed: {}", rank, reason));
  }
}

void Rendezvous::fail_all(std::string text) {
  set_failure(std::move(text));
  throw Error("comm", failure_);
}

void Rendezvous::check(Lock& lock, int rank) {
  if (!failed_) {
    return;
  }
  if (failed_rank_ < 0 || failed_rank_ == rank) {
    throw Error("comm", failure_);
  }
  // A rank that unwinds gives its reason only when it leaves; one that does not leave is not waited
  // for long.
  changed_.wait_until(lock, failed_at_ + kReasonTime, [&] { return left_[failed_rank_]; });
  throw Error("comm",
              fmt::format("{}; rank {} waited at {}", failure_, rank, name_of(calls_[rank])));
}

}  // namespace zerolab
