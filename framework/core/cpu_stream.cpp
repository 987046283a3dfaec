#include "framework/core/cpu_stream.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "framework/core/error.h"
#include "framework/core/philox.h"

namespace zerolab {
namespace {

class WorkerEvent final : public EventState {
 public:
  bool is_complete() const override {
    const std::lock_guard lock(mutex_);
    return complete_;
  }
  void synchronize() override {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [&] { return complete_; });
    if (error_ != nullptr) {
      std::rethrow_exception(error_);
    }
  }
  void complete(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    complete_ = true;
    error_ = std::move(error);
    reached_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable reached_;
  bool complete_ = false;
  std::exception_ptr error_;
};

class LazyEvent final : public EventState {
 public:
  explicit LazyEvent(LazyScheduler& scheduler) : scheduler_(scheduler) {}
  bool is_complete() const override { return complete_; }
  void synchronize() override {
    scheduler_.run_until([this] { return complete_; });
  }
  void complete() { complete_ = true; }

 private:
  LazyScheduler& scheduler_;
  bool complete_ = false;
};

}  // namespace

struct WorkerStream::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  std::exception_ptr error;  ///< touched by the worker only
  bool stop = false;
  std::thread thread;

  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_one();
  }

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty()) {
        return;
      }
      const std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }
};

WorkerStream::WorkerStream() : CpuStream(false), shared_(std::make_unique<Shared>()) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->run(); });
}

WorkerStream::~WorkerStream() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_one();
  }
  shared_->thread.join();
}

void WorkerStream::enqueue(std::function<void()> work) {
  shared_->push([shared = shared_.get(), work = std::move(work)] {
    if (shared->error != nullptr) {
      return;
    }
    try {
      work();
    } catch (...) {
      shared->error = std::current_exception();
    }
  });
}

Event WorkerStream::record() {
  auto state = std::make_shared<WorkerEvent>();
  shared_->push([shared = shared_.get(), state] { state->complete(shared->error); });
  return Event(state);
}

void WorkerStream::wait(const Event& event) {
  if (!event.is_complete()) {
    enqueue([event] { event.synchronize(); });
  }
}

void WorkerStream::synchronize() { record().synchronize(); }

bool LazyScheduler::run_one() {
  std::vector<LazyStream*> runnable;
  for (LazyStream* stream : streams_) {
    if (stream->runnable()) {
      runnable.push_back(stream);
    }
  }
  if (runnable.empty()) {
    return false;
  }
  LazyStream* chosen = runnable[philox(seed_, 0, draws_++)[0] % runnable.size()];
  const LazyStream::Item item = std::move(chosen->items_.front());
  chosen->items_.pop_front();
  if (item.work) {
    item.work();
  }
  return true;
}

void LazyScheduler::run_until(const std::function<bool()>& done) {
  while (!done()) {
    require(run_one(), "stream",
            "a wait can never end: every stream waits for an event that no work completes");
  }
}

void LazyScheduler::run_all() {
  for (bool more = true; more;) {
    try {
      more = run_one();
    } catch (const std::exception&) {
    }
  }
}

LazyStream::LazyStream(LazyScheduler& scheduler) : CpuStream(false), scheduler_(scheduler) {
  scheduler_.streams_.push_back(this);
}

LazyStream::~LazyStream() { std::erase(scheduler_.streams_, this); }

void LazyStream::enqueue(std::function<void()> work) {
  items_.push_back({std::move(work), Event()});
}

Event LazyStream::record() {
  auto state = std::make_shared<LazyEvent>(scheduler_);
  enqueue([state] { state->complete(); });
  return Event(state);
}

void LazyStream::wait(const Event& event) {
  if (!event.is_complete()) {
    items_.push_back({nullptr, event});
  }
}

void LazyStream::synchronize() {
  scheduler_.run_until([this] { return items_.empty(); });
}

namespace {

class ImmediateStreams final : public RankStreams {
 public:
  Stream& compute() override { return compute_; }
  Stream& communication() override {
    if (communication_ == nullptr) {
      communication_ = std::make_unique<WorkerStream>();
    }
    return *communication_;
  }

 private:
  ImmediateStream compute_;
  std::unique_ptr<WorkerStream> communication_;
};

class LazyStreams final : public RankStreams {
 public:
  explicit LazyStreams(uint64_t seed) : scheduler_(seed) {}
  /// Frees that lazy streams still hold must run, after the communication that they wait for; what
  /// failed has been reported at an earlier wait.
  ~LazyStreams() override { scheduler_.run_all(); }
  LazyStreams(const LazyStreams&) = delete;
  LazyStreams& operator=(const LazyStreams&) = delete;

  Stream& compute() override { return compute_; }
  Stream& communication() override { return communication_; }

 private:
  LazyScheduler scheduler_;
  LazyStream compute_{scheduler_};
  LazyStream communication_{scheduler_};
};

}  // namespace

std::unique_ptr<RankStreams> make_cpu_streams(StreamMode mode, uint64_t lazy_seed) {
  if (mode == StreamMode::kLazy) {
    return std::make_unique<LazyStreams>(lazy_seed);
  }
  return std::make_unique<ImmediateStreams>();
}

}  // namespace zerolab
