#include "framework/comm/rendezvous.h"

#include <fmt/core.h>

#include <algorithm>

#include "framework/comm/link.h"

namespace zerolab {
namespace {

// A wake-up of every rank costs more than moving so few bytes: the last rank that arrives moves
// them for all, and the second barrier falls away.
constexpr int64_t kMovedByLast = 16 << 10;

bool has_second_barrier(const Collective& call) {
  return call.numel * size_of(call.dtype) > kMovedByLast;
}

}  // namespace

Rendezvous::Rendezvous(int size, const LocalOptions& options)
    : GroupState(size, options.timeout_s),
      options_(options),
      calls_(size),
      traffic_(size),
      arrived_(size) {}

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
        set_broken(rank, error);
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
      const Lock relock(mutex_);
      set_broken(rank, error);
    }
    wait_until_all_have_moved();
  }
  result.sent = traffic_[rank].sent;
  result.received = traffic_[rank].received;
  const Clock::duration duration = link_time(options_, call, size(), result.sent, result.received);
  if (duration > Clock::duration::zero() || broken_) {
    lock.lock();
    sleep_until(lock, result.all_arrived + duration);
    if (broken_) {
      check(lock, {rank, calls_[rank]});
    }
  }
  return result;
}

void Rendezvous::arrive(Lock& lock, int rank) {
  traffic_[rank].sent = 0;
  traffic_[rank].received = 0;
  arrived_[rank] = true;
  ++num_arrived_;
  fail_if_missed();
  check(lock, {rank, calls_[rank]});
}

void Rendezvous::commit() {
  for (int rank = 1; rank < size(); ++rank) {
    if (!same_call(calls_[0], calls_[rank])) {
      fail_disagreement(committed_ + 1, {0, calls_[0]}, {rank, calls_[rank]});
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
  changed_.wait_until(lock, Clock::now() + clock_time(timeout_s()),
                      [&] { return committed_ != before || has_failed(); });
  if (committed_ != before) {
    return;
  }
  check(lock, {rank, calls_[rank]});
  std::vector<bool> missing = arrived_;
  missing.flip();
  set_timeout(missing, calls_[rank]);
  fail_all();
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
  changed_.wait_until(lock, time, [&] { return has_failed(); });
}

void Rendezvous::fail_if_missed() {
  const auto waiting = std::find(arrived_.begin(), arrived_.end(), true);
  if (waiting == arrived_.end()) {
    return;
  }
  std::vector<bool> missed(size());
  for (int rank = 0; rank < size(); ++rank) {
    missed[rank] = has_left(rank) && !arrived_[rank];
  }
  const auto rank = static_cast<int>(waiting - arrived_.begin());
  set_missed(missed, {rank, calls_[rank]});
}

void Rendezvous::set_broken(int rank, std::string_view reason) {
  broken_ = true;
  set_failure_of(rank, reason);
}

}  // namespace zerolab
