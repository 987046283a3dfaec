#include "framework/comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/error.h"

namespace zerolab {
namespace {

// A wake-up of every rank costs more than moving so few bytes: the last rank that arrives moves
// them for all, and the second barrier falls away.
constexpr int64_t kMovedByLast = 16 << 10;

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

Rendezvous::Rendezvous(int size, double timeout_s)
    : timeout_s_(timeout_s), calls_(size), traffic_(size), arrived_(size), left_(size) {}

Rendezvous::Result Rendezvous::run(int rank, const Collective& call, Backend& backend) {
  Lock lock(mutex_);
  arrive(rank, call);
  if (num_arrived_ == size()) {
    commit();
    if (!has_second_barrier(call)) {
      move_all(backend);
    }
    lock.unlock();
    changed_.notify_all();
  } else {
    wait_for_peers(lock, call);
    lock.unlock();
  }
  const Clock::time_point all_arrived = all_arrived_;
  if (has_second_barrier(call)) {
    move_part(rank, calls_, backend, traffic_);
    wait_until_all_have_moved();
  }
  return {all_arrived, traffic_[rank].sent, traffic_[rank].received};
}

void Rendezvous::arrive(int rank, const Collective& call) {
  calls_[rank] = call;
  traffic_[rank].sent = 0;
  traffic_[rank].received = 0;
  arrived_[rank] = true;
  ++num_arrived_;
  fail_if_missed();
  if (!failure_.empty()) {
    throw Error("comm", failure_);
  }
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

void Rendezvous::move_all(Backend& backend) {
  for (int rank = 0; rank < size(); ++rank) {
    move_part(rank, calls_, backend, traffic_);
  }
}

void Rendezvous::wait_for_peers(Lock& lock, const Collective& call) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(timeout_s_));
  const int64_t before = committed_;
  const bool ended = changed_.wait_until(lock, deadline,
                                         [&] { return committed_ != before || !failure_.empty(); });
  if (committed_ != before) {
    return;
  }
  if (ended) {
    throw Error("comm", failure_);
  }
  std::vector<bool> missing = arrived_;
  missing.flip();
  fail_all(fmt::format(
      "{} did not arrive at {} within {} s; a rank that is only slow needs a longer comm.timeout_s",
      list_of_ranks(missing), name_of(call), timeout_s_));
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

void Rendezvous::abort(int rank, std::string_view reason) {
  const Lock lock(mutex_);
  // A rank that fails by what it gave as its own reason adds nothing.
  const bool better = failed_rank_ == rank && !reason.ends_with(failure_);
  if (failure_.empty() || better) {
    failed_rank_ = rank;
    set_failure(fmt::format("rank {} failed: {}", rank, reason));
  }
}

void Rendezvous::enter(int rank) {
  const Lock lock(mutex_);
  left_[rank] = false;
}

void Rendezvous::leave(int rank) {
  const Lock lock(mutex_);
  left_[rank] = true;
  fail_if_missed();
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
  if (failure_.empty() && waiting != arrived_.end() && std::ranges::count(missed, true) > 0) {
    const auto rank = waiting - arrived_.begin();
    set_failure(fmt::format(
        "{} left the group while rank {} waits at {}; all ranks must make the same calls",
        list_of_ranks(missed), rank, describe(calls_[rank])));
  }
}

void Rendezvous::set_failure(std::string text) {
  failure_ = std::move(text);
  changed_.notify_all();
}

void Rendezvous::fail_all(std::string text) {
  set_failure(std::move(text));
  throw Error("comm", failure_);
}

}  // namespace zerolab
