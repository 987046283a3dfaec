#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "framework/core/stream.h"

namespace zerolab {

/// A stream whose work is host functions. Backends of the CPU put their kernels in it with
/// `launch`.
class CpuStream : public Stream {
 public:
  /// Runs `work` now, or queues it after the earlier work. `work` must not own tensors: it
  /// captures raw pointers, whose memory is freed in stream order.
  template <typename Work>
  void launch(Work&& work) {
    if (immediate_) {
      work();
    } else {
      enqueue(std::function<void()>(std::forward<Work>(work)));
    }
  }

  void run_on_host(std::function<void()> work) final { launch(std::move(work)); }

  /// True when `launch` runs its work before it returns.
  bool is_immediate() const { return immediate_; }

 protected:
  explicit CpuStream(bool immediate) : immediate_(immediate) {}
  virtual void enqueue(std::function<void()> work) = 0;

 private:
  const bool immediate_;
};

/// Runs all work in the caller's thread, at once.
class ImmediateStream final : public CpuStream {
 public:
  ImmediateStream() : CpuStream(true) {}
  Event record() override { return Event(); }
  void wait(const Event& event) override { event.synchronize(); }
  void synchronize() override {}

 protected:
  void enqueue(std::function<void()> work) override { work(); }
};

/// Runs its work in a thread of its own, so that communication really overlaps with computation.
/// After work has thrown, later work is dropped and the exception is rethrown at every wait.
class WorkerStream final : public CpuStream {
 public:
  WorkerStream();
  /// Finishes the queue, then joins.
  ~WorkerStream() override;
  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;

 protected:
  void enqueue(std::function<void()> work) override;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

class LazyStream;

/// Executes the lazy streams of one rank, in its host thread, only as far as a wait demands and in
/// a seeded random order that keeps stream order and event waits and nothing else. Correct code
/// gives the same bits under every seed; a missing event does not.
class LazyScheduler {
 public:
  explicit LazyScheduler(uint64_t seed) : seed_(seed) {}
  /// Runs queued work until `done()`; throws when nothing can run any more.
  void run_until(const std::function<bool()>& done);
  /// Runs all that can run, whatever it throws: at a rank's end, whose memory is freed by such
  /// work.
  void run_all();

 private:
  friend class LazyStream;
  /// False when nothing can run.
  bool run_one();

  uint64_t seed_;
  uint64_t draws_ = 0;
  std::vector<LazyStream*> streams_;
};

/// A stream whose work is executed by a `LazyScheduler`, which must outlive it.
class LazyStream final : public CpuStream {
 public:
  explicit LazyStream(LazyScheduler& scheduler);
  ~LazyStream() override;
  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;

 protected:
  void enqueue(std::function<void()> work) override;

 private:
  friend class LazyScheduler;
  struct Item {
    std::function<void()> work;  ///< empty for a wait
    Event wait_for;
  };
  bool runnable() const { return !items_.empty() && items_.front().wait_for.is_complete(); }

  LazyScheduler& scheduler_;
  std::deque<Item> items_;
};

/// The streams of a rank that computes on the host.
std::unique_ptr<RankStreams> make_cpu_streams(StreamMode mode, uint64_t lazy_seed);

}  // namespace zerolab
