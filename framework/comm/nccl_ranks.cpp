#include "framework/comm/nccl_ranks.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "framework/comm/link.h"
#include "framework/core/error.h"
#include "framework/cuda/check.h"

namespace zerolab {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{20};

// So long an abort waits for a rank's call of NCCL. Those do not block (config.blocking = 0),
// unless the device's queue is full of work that waits for the abort.
constexpr std::chrono::seconds kCallTime{1};

/// Within one process.
class SharedId final : public UniqueIdExchange {
 public:
  void give(const Id& id) override {
    const std::lock_guard lock(mutex_);
    id_ = id;
  }
  std::optional<Id> take() override {
    const std::lock_guard lock(mutex_);
    return id_;
  }

 private:
  std::mutex mutex_;
  std::optional<Id> id_;
};

std::string text_of(ncclResult_t result, ncclComm_t communicator, const Collective& call) {
  return fmt::format("NCCL reports {} ({}) in {}", ncclGetErrorString(result),
                     ncclGetLastError(communicator), name_of(call));
}

ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
  return asked == ncclSuccess ? state : asked;
}

}  // namespace

const NcclRanks::Verb* NcclRanks::Seat::under_way() const {
  const auto verb = std::ranges::find_if(verbs, [](const Verb& of) { return !of.has_ended(); });
  return verb == verbs.end() ? nullptr : &*verb;
}

NcclRanks::NcclRanks(int size, const NcclOptions& options)
    : GroupState(size, options.timeout_s),
      seats_(size),
      exchange_(std::make_unique<SharedId>()),
      watcher_([this] { watch(); }) {}

NcclRanks::~NcclRanks() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  watcher_.join();
  // All verbs are over: there is nothing to flush, and an abort waits for nobody.
  for (Seat& seat : seats_) {
    if (seat.communicator != nullptr) {
      ncclCommAbort(seat.communicator);
    }
  }
}

void NcclRanks::join(int rank) {
  int device = 0;
  cuda::check(cudaGetDevice(&device), "asking for the current device");
  const Lock lock(mutex_);
  for (int other = 0; other < size(); ++other) {
    require(other == rank || seats_[other].device != device, "comm",
            "NCCL needs a device for each rank; got device {} for ranks {} and {}; ranks that "
            "share one need the local communicator",
            device, std::min(rank, other), std::max(rank, other));
  }
  seats_[rank].device = device;
  seats_[rank].verbs.clear();  // of an earlier run
}

void NcclRanks::begin(int rank, const Collective& call, const StreamTime& begin) {
  Lock lock(mutex_);
  GroupState::check(lock, {rank, call});
  Seat& seat = seats_[rank];
  const int64_t index = seat.calls++;
  seat.waits_at = call;
  if (index == first_posted_ + std::ssize(board_)) {
    board_.push_back({rank, call, 0});
  }
  Posted& posted = board_[index - first_posted_];
  if (!same_call(posted.call, call)) {
    fail_disagreement(index + 1, {posted.first_rank, posted.call}, {rank, call});
  }
  if (++posted.num_ranks == size()) {
    board_.pop_front();
    ++first_posted_;
  }
  seat.verbs.push_back({index, call, begin, std::nullopt});
  fail_if_missed();
  GroupState::check(lock, {rank, call});
}

void NcclRanks::end(int rank, const StreamTime& end) {
  const Lock lock(mutex_);
  seats_[rank].verbs.back().end = end;
}

std::vector<NcclRanks::Verb> NcclRanks::take_ended(int rank) {
  const Lock lock(mutex_);
  std::vector<Verb> ended;
  std::deque<Verb>& verbs = seats_[rank].verbs;
  while (!verbs.empty() && verbs.front().has_ended()) {
    ended.push_back(std::move(verbs.front()));
    verbs.pop_front();
  }
  return ended;
}

void NcclRanks::call_nccl(int rank, const Work& work) {
  if (seats_[rank].communicator == nullptr) {
    connect(rank);
  }
  complete(rank, [&](Seat& seat) { return work(seat.communicator); });
}

void NcclRanks::connect(int rank) {
  if (rank == 0) {
    ncclUniqueId id;
    complete(rank, [&](Seat&) { return ncclGetUniqueId(&id); });
    exchange_->give(std::bit_cast<UniqueIdExchange::Id>(id));
  }
  std::optional<UniqueIdExchange::Id> id;
  while (!(id = exchange_->take())) {
    check(rank);
    std::this_thread::yield();
  }
  complete(rank, [&](Seat& seat) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(
        &communicator, size(), std::bit_cast<ncclUniqueId>(*id), rank, &config);
    seat.communicator = communicator;
    return result;
  });
}

void NcclRanks::complete(int rank, const std::function<ncclResult_t(Seat& seat)>& work) {
  Seat& seat = seats_[rank];
  const auto call = [&](const auto& function) {
    const std::lock_guard lock(seat.in_use);
    return seat.aborted ? ncclSystemError : function(seat);
  };
  ncclResult_t result = call(work);
  while (result == ncclInProgress) {
    std::this_thread::yield();
    result = call([](Seat& of) { return state_of(of.communicator); });
  }
  if (result != ncclSuccess) {
    {
      const Lock lock(mutex_);
      if (!has_failed()) {
        set_failure_of(rank, text_of(result, seat.communicator, seat.waits_at));
      }
    }
    check(rank);
  }
}

void NcclRanks::check(int rank) {
  Lock lock(mutex_);
  if (has_failed()) {
    changed_.wait(lock, [&] { return ended_; });
    GroupState::check(lock, {rank, seats_[rank].waits_at});
  }
}

void NcclRanks::fail_if_missed() {
  // The first call that a rank has left without making.
  int64_t index = first_posted_ + std::ssize(board_);
  for (int rank = 0; rank < size(); ++rank) {
    index = has_left(rank) ? std::min(index, seats_[rank].calls) : index;
  }
  if (index == first_posted_ + std::ssize(board_)) {
    return;
  }
  std::vector<bool> missed(size());
  for (int rank = 0; rank < size(); ++rank) {
    missed[rank] = has_left(rank) && seats_[rank].calls <= index;
  }
  const Posted& posted = board_[index - first_posted_];
  set_missed(missed, {posted.first_rank, posted.call});
}

void NcclRanks::watch() {
  Lock lock(mutex_);
  while (!stop_) {
    for (int rank = 0; rank < size() && !has_failed(); ++rank) {
      try {
        look_at(rank);
      } catch (const Error& error) {
        set_failure_of(rank, error.what());
      }
    }
    if (has_failed() && !ended_) {
      end_all(lock);
    }
    changed_.wait_for(lock, kWatchInterval, [&] { return stop_ || (has_failed() && !ended_); });
  }
}

void NcclRanks::look_at(int rank) {
  Seat& seat = seats_[rank];
  if (const Verb* verb = seat.under_way()) {
    cudaSetDevice(seat.device);
    look_at_time(rank, *verb);
    look_at_errors(rank, *verb);
  }
}

void NcclRanks::look_at_time(int rank, const Verb& verb) {
  Seat& seat = seats_[rank];
  const Clock::time_point now = Clock::now();
  if (seat.watched != verb.index || !verb.begin.get().has_value()) {
    seat.watched = verb.index;
    seat.since = now;
  } else if (now - seat.since > clock_time(timeout_s())) {
    std::vector<bool> missing(size());
    for (int other = 0; other < size(); ++other) {
      missing[other] = !has_arrived(other, verb.index);
    }
    if (std::ranges::count(missing, true) > 0) {
      set_timeout(missing, verb.call);
    } else {
      set_failure(fmt::format(
          "{} did not end within {} s, though all ranks are at it; a link that is only slow needs "
          "a longer comm.timeout_s",
          name_of(verb.call), timeout_s()));
    }
  }
}

void NcclRanks::look_at_errors(int rank, const Verb& verb) {
  Seat& seat = seats_[rank];
  const std::unique_lock lock(seat.in_use, std::try_to_lock);
  if (!lock || seat.communicator == nullptr) {
    return;
  }
  const ncclResult_t state = state_of(seat.communicator);
  if (state != ncclSuccess && state != ncclInProgress) {
    set_failure_of(rank, text_of(state, seat.communicator, verb.call));
  }
}

bool NcclRanks::has_arrived(int rank, int64_t index) const {
  const Seat& seat = seats_[rank];
  const auto verb = std::ranges::find(seat.verbs, index, &Verb::index);
  return seat.calls > index && (verb == seat.verbs.end() || verb->begin.get().has_value());
}

void NcclRanks::end_all(Lock& lock) {
  for (Seat& seat : seats_) {
    if (const Verb* verb = seat.under_way()) {
      seat.waits_at = verb->call;
    }
  }
  lock.unlock();
  for (Seat& seat : seats_) {
    std::unique_lock in_use(seat.in_use, std::try_to_lock);
    for (const auto limit = Clock::now() + kCallTime; !in_use && Clock::now() < limit;) {
      std::this_thread::yield();
      in_use.try_lock();
    }
    seat.aborted = true;
    if (ncclComm_t communicator = seat.communicator.exchange(nullptr)) {
      ncclCommAbort(communicator);
    }
  }
  lock.lock();
  ended_ = true;
  changed_.notify_all();
}

}  // namespace zerolab
