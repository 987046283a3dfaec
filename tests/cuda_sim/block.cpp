#include "cuda_sim/block.h"

#include <fmt/format.h>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_sim/launch.h"

namespace zerolab::cuda_sim {
namespace {

namespace context = boost::context;

constexpr size_t kStackBytes = 256 * 1024;
constexpr size_t kRedZone = 64;

class Block;
thread_local Block* current_block = nullptr;

/// A fiber that runs kernel threads one after another until one has to wait; then it is that
/// thread's, and another fiber goes on with the rest. A kernel that never waits thus needs a single
/// fiber.
class Worker {
 public:
  Worker()
      : fiber_(std::allocator_arg, context::protected_fixedsize_stack(kStackBytes),
               [this](context::fiber&& caller) -> context::fiber {
                 caller_ = std::move(caller);
                 for (;;) {
                   run();
                   yield();
                 }
               }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void resume() { fiber_ = std::move(fiber_).resume(); }
  /// In the fiber: back to who resumed it.
  void yield() { caller_ = std::move(caller_).resume(); }

 private:
  void run();

  context::fiber caller_;
  context::fiber fiber_;
};

/// Workers whose threads have ended, kept for the next block of this host thread.
thread_local std::vector<std::unique_ptr<Worker>> idle_workers;

std::unique_ptr<Worker> take_worker() {
  if (idle_workers.empty()) {
    return std::make_unique<Worker>();
  }
  auto worker = std::move(idle_workers.back());
  idle_workers.pop_back();
  return worker;
}

std::string describe(const std::source_location& place) {
  return fmt::format("{}:{} ({})", place.file_name(), place.line(), place.function_name());
}

/// The threads of one block after another; see `run_grid`.
class Block {
 public:
  Block(dim3 shape, size_t shared_bytes, const std::function<void()>& body, Random& random)
      : shape_(shape),
        body_(body),
        random_(random),
        threads_(size_t{shape.x} * shape.y * shape.z),
        shared_bytes_((shared_bytes + 15) / 16 * 16),
        shared_(std::make_unique<Shared[]>((shared_bytes_ + kRedZone) / sizeof(Shared))) {}

  void run(uint3 index) {
    blockIdx = index;
    std::memset(shared_.get(), 0xFF, shared_bytes_ + kRedZone);
    for (Thread& thread : threads_) {
      thread = {};
    }
    const auto num_warps = static_cast<uint32_t>((threads_.size() + kWarpSize - 1) / kWarpSize);
    do {
      for_each_in_random_order(num_warps, [&](uint32_t warp) { run_warp(warp); });
    } while (pass_barrier());
    const std::byte* zone = dynamic_shared_memory() + shared_bytes_;
    for (size_t i = 0; i < kRedZone; ++i) {
      if (zone[i] != std::byte{0xFF}) {
        throw std::runtime_error(
            fmt::format("{} wrote beyond its dynamic shared memory of {} bytes", describe_block(),
                        shared_bytes_));
      }
    }
  }

  /// In a worker: runs threads of the current warp until none is left that has not started.
  void run_threads(Worker* worker) {
    while (next_ < kWarpSize) {
      const uint32_t index = warp_start_ + order_[next_++];
      if (index >= threads_.size() || threads_[index].state != State::kNew) {
        continue;
      }
      Thread& thread = threads_[index];
      enter(index, worker);
      try {
        body_();
      } catch (const context::detail::forced_unwind&) {
        throw;  // the worker is being destroyed
      } catch (const std::exception& error) {
        fail(error.what());
      } catch (...) {
        fail("unknown exception");
      }
      thread.state = State::kDone;
    }
  }

  /// In a thread: waits until the scheduler has released it.
  void wait_at_barrier(const std::source_location& place) { suspend(State::kBarrier, place); }
  void wait_at_shuffle(unsigned mask, int source, const void* value, void* result, size_t bytes,
                       const std::source_location& place) {
    Thread& thread = threads_[current_];
    thread.mask = mask;
    thread.source = source;
    thread.value = value;
    thread.result = result;
    thread.bytes = bytes;
    suspend(State::kShuffle, place);
  }

  int lane() const { return static_cast<int>(current_ % kWarpSize); }
  std::byte* dynamic_shared_memory() { return shared_[0].bytes; }

 private:
  enum class State : uint8_t { kNew, kRunnable, kBarrier, kShuffle, kDone };
  struct Thread {
    State state = State::kNew;
    std::unique_ptr<Worker> worker;  ///< while it waits
    std::source_location place;      ///< where it waits
    unsigned mask = 0;
    int source = 0;
    const void* value = nullptr;
    void* result = nullptr;
    size_t bytes = 0;
  };
  struct alignas(16) Shared {
    std::byte bytes[16];
  };

  template <typename Body>
  void for_each_in_random_order(uint32_t n, Body&& body) {
    const uint32_t start = random_.below(n);
    const bool ascending = random_.below(2) == 0;
    for (uint32_t i = 0; i < n; ++i) {
      body((ascending ? start + i : start + n - i) % n);
    }
  }

  /// Runs a warp's lanes until each is at a barrier or has ended.
  void run_warp(uint32_t warp) {
    warp_start_ = warp * kWarpSize;
    do {
      uint32_t count = 0;
      for_each_in_random_order(kWarpSize, [&](uint32_t lane) { order_[count++] = lane; });
      next_ = 0;
      start_threads();
      for (const uint32_t lane : order_) {
        if (has_lane(lane) && lane_at(lane).state == State::kRunnable) {
          resume(warp_start_ + lane);
        }
      }
    } while (exchange());
  }

  bool has_lane(uint32_t lane) const { return warp_start_ + lane < threads_.size(); }
  Thread& lane_at(uint32_t lane) { return threads_[warp_start_ + lane]; }

  void start_threads() {
    const bool any_new = has_lane(0) && lane_at(0).state == State::kNew;
    while (any_new && next_ < kWarpSize) {
      go_on(take_worker());
    }
    next_ = kWarpSize;
  }
  void resume(uint32_t index) {
    Worker* worker = threads_[index].worker.get();
    enter(index, worker);
    go_on(std::move(threads_[index].worker));
  }
  /// Runs a worker until it has no more to do or its thread waits, in which case it is the
  /// thread's.
  void go_on(std::unique_ptr<Worker> worker) {
    current_block = this;
    waiting_ = false;
    worker->resume();
    (waiting_ ? threads_[current_].worker : idle_workers.emplace_back()) = std::move(worker);
    if (!failure_.empty()) {
      throw std::runtime_error(failure_);
    }
  }

  void enter(uint32_t index, Worker* worker) {
    current_ = index;
    worker_ = worker;
    threadIdx = thread_index(index);
  }
  void suspend(State state, const std::source_location& place) {
    Thread& thread = threads_[current_];
    thread.state = state;
    thread.place = place;
    waiting_ = true;
    worker_->yield();
  }

  /// Lets the lanes that wait at a shuffle exchange values; false when none waits.
  bool exchange() {
    bool any = false;
    for (uint32_t lane = 0; lane < kWarpSize && has_lane(lane); ++lane) {
      if (lane_at(lane).state == State::kShuffle) {
        any = true;
        check_shuffle(lane);
        Thread& to = lane_at(lane);
        if (to.bytes > 0) {
          std::memcpy(to.result, lane_at(static_cast<uint32_t>(to.source)).value, to.bytes);
        }
      }
    }
    for (uint32_t lane = 0; any && lane < kWarpSize && has_lane(lane); ++lane) {
      if (lane_at(lane).state == State::kShuffle) {
        lane_at(lane).state = State::kRunnable;
      }
    }
    return any;
  }
  void check_shuffle(uint32_t lane) {
    const Thread& thread = lane_at(lane);
    const auto missing = [&](uint32_t other, std::string_view why) {
      throw std::runtime_error(fmt::format("{} of {} waits in a warp's exchange at {}, but {} {}",
                                           describe_thread(warp_start_ + lane), describe_block(),
                                           describe(thread.place),
                                           describe_thread(warp_start_ + other), why));
    };
    const auto source = static_cast<uint32_t>(thread.source);
    if ((thread.mask >> lane & 1) == 0) {
      missing(lane, "is not in its own mask");
    }
    if (!has_lane(source) || lane_at(source).state == State::kDone ||
        (thread.mask >> source & 1) == 0) {
      missing(source, "which it reads is not there, has ended or is not in the mask");
    }
    for (uint32_t other = 0; other < kWarpSize && has_lane(other); ++other) {
      const Thread& peer = lane_at(other);
      if ((thread.mask >> other & 1) == 0 || peer.state == State::kDone) {
        continue;
      }
      if (peer.state != State::kShuffle || peer.mask != thread.mask ||
          peer.place.line() != thread.place.line() || peer.bytes != thread.bytes) {
        missing(other, fmt::format("waits at {}", describe(peer.place)));
      }
    }
  }

  /// Releases the block's live threads, which all wait at a barrier; false when all have ended.
  bool pass_barrier() {
    const Thread* first = nullptr;
    for (uint32_t index = 0; index < threads_.size(); ++index) {
      Thread& thread = threads_[index];
      if (thread.state == State::kDone) {
        continue;
      }
      if (first != nullptr && (first->place.line() != thread.place.line() ||
                               std::strcmp(first->place.file_name(), thread.place.file_name()))) {
        throw std::runtime_error(
            fmt::format("{}: {} waits in __syncthreads at {}, but {} at {}", describe_block(),
                        describe_thread(static_cast<uint32_t>(first - threads_.data())),
                        describe(first->place), describe_thread(index), describe(thread.place)));
      }
      first = first == nullptr ? &thread : first;
      thread.state = State::kRunnable;
    }
    return first != nullptr;
  }

  uint3 thread_index(uint32_t index) const {
    return {index % shape_.x, index / shape_.x % shape_.y, index / shape_.x / shape_.y};
  }
  std::string describe_thread(uint32_t index) const {
    const uint3 i = thread_index(index);
    return fmt::format("thread ({}, {}, {})", i.x, i.y, i.z);
  }
  static std::string describe_block() {
    return fmt::format("block ({}, {}, {})", blockIdx.x, blockIdx.y, blockIdx.z);
  }
  void fail(std::string_view what) {
    if (failure_.empty()) {
      failure_ = fmt::format("{}, {}: {}", describe_block(), describe_thread(current_), what);
    }
    next_ = kWarpSize;
  }

  const dim3 shape_;
  const std::function<void()>& body_;
  Random& random_;
  std::vector<Thread> threads_;
  const size_t shared_bytes_;
  std::unique_ptr<Shared[]> shared_;

  uint32_t warp_start_ = 0;
  uint32_t order_[kWarpSize] = {};
  uint32_t next_ = 0;     ///< in order_: threads from here on have not started
  uint32_t current_ = 0;  ///< the running thread, and the worker that runs it
  Worker* worker_ = nullptr;
  bool waiting_ = false;  ///< the worker came back because the current thread waits
  std::string failure_;
};

void Worker::run() { current_block->run_threads(this); }

}  // namespace

void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body,
              Random& random) {
  gridDim = grid;
  blockDim = block;
  Block threads(block, shared_bytes, body, random);
  const uint64_t num_blocks = uint64_t{grid.x} * grid.y * grid.z;
  const uint64_t start = random.below(static_cast<uint32_t>(num_blocks));
  const bool ascending = random.below(2) == 0;
  for (uint64_t i = 0; i < num_blocks; ++i) {
    const uint64_t index = (ascending ? start + i : start + num_blocks - i) % num_blocks;
    threads.run({static_cast<unsigned>(index % grid.x),
                 static_cast<unsigned>(index / grid.x % grid.y),
                 static_cast<unsigned>(index / grid.x / grid.y)});
  }
}

void barrier(const std::source_location& place) { current_block->wait_at_barrier(place); }
void shuffle(unsigned mask, int source, const void* value, void* result, size_t bytes,
             const std::source_location& place) {
  current_block->wait_at_shuffle(mask, source, value, result, bytes, place);
}
int lane() { return current_block->lane(); }
std::byte* dynamic_shared_memory() { return current_block->dynamic_shared_memory(); }

}  // namespace zerolab::cuda_sim
