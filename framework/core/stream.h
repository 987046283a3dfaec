#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "framework/core/clock.h"

namespace zerolab {

/// A backend's implementation of an `Event`: a point in a stream that is reached or not.
class EventState {
 public:
  virtual ~EventState() = default;
  virtual bool is_complete() const = 0;
  /// Blocks the host until the point is reached; rethrows what the stream's work threw before it.
  virtual void synchronize() = 0;
};

/// A point in a stream's order of work. A default event is complete. Copies share the point.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}

  bool is_complete() const { return state_ == nullptr || state_->is_complete(); }
  void synchronize() const {
    if (state_ != nullptr) {
      state_->synchronize();
    }
  }
  const std::shared_ptr<EventState>& state() const { return state_; }

 private:
  std::shared_ptr<EventState> state_;
};

/// A backend's implementation of a `StreamTime` that it does not know at once.
class StreamTimeState {
 public:
  virtual ~StreamTimeState() = default;
  /// By the host's clock; nothing while the point is not reached.
  virtual std::optional<Clock::time_point> time() const = 0;
};

/// When a stream passes a point of its order of work, by the host's clock. Copies share it.
class StreamTime {
 public:
  StreamTime(Clock::time_point time) : time_(time) {}
  explicit StreamTime(std::shared_ptr<const StreamTimeState> state) : state_(std::move(state)) {}

  /// Nothing while the point is not reached.
  std::optional<Clock::time_point> get() const {
    return state_ == nullptr ? time_ : state_->time();
  }

 private:
  Clock::time_point time_;
  std::shared_ptr<const StreamTimeState> state_;
};

/// An ordered queue of device work. Work of one stream runs in order; between streams only events
/// order it. A stream is driven by its rank's host thread alone.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Marks the end of all work launched so far.
  virtual Event record() = 0;
  /// Work launched from now on starts only after `event`. Does not block the host where the device
  /// can wait.
  virtual void wait(const Event& event) = 0;
  /// When the work launched so far is done. The host's time now where the caller runs that work
  /// itself.
  virtual StreamTime time() { return Clock::now(); }
  /// Blocks the host until all launched work is done; rethrows what it threw.
  virtual void synchronize() = 0;
  /// Runs `work` on the host, in the stream's order; may block the caller until it is its turn.
  virtual void run_on_host(std::function<void()> work) = 0;
};

/// How the host's streams run their work (see core/cpu_stream.h).
enum class StreamMode : uint8_t {
  kImmediate,  ///< compute in the host thread; the communication stream in a worker thread
  kLazy,       ///< both executed only at waits, in a seeded order: finds missing events
};

/// A rank's two streams.
class RankStreams {
 public:
  virtual ~RankStreams() = default;
  virtual Stream& compute() = 0;
  /// Made at the first call.
  virtual Stream& communication() = 0;
};

}  // namespace zerolab
