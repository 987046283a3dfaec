#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string_view>
#include <vector>

#include "framework/core/stream.h"

namespace zerolab {

/// Where a span of time was spent.
enum class SpanKind : uint8_t {
  kForward,
  kBackward,
  kOptimizer,
  kStep,
  kCommWait,      ///< a collective waited for its peers
  kCommTransfer,  ///< a collective moved bytes
  kCommExposed,   ///< the compute stream stood still for communication
};
inline constexpr int kNumSpanKinds = 7;
std::string_view name_of(SpanKind kind);

/// One piece of time of one rank. `name` has static storage.
struct Span {
  SpanKind kind;
  std::string_view name;
  int bucket = -1;
  int64_t bytes = 0;
  Clock::time_point begin = {};
  Clock::time_point end = {};

  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(end - begin).count();
  }
};

/// The spans of one rank since the last `take`: the one source of every time in logs, tables and
/// traces. Thread-safe: the communication stream records from its own thread.
class Recorder {
 public:
  void add(const Span& span);
  /// A span between two points of a device's streams, whose times `span` gets when they are known.
  void add(const Span& span, const StreamTime& begin, const StreamTime& end);
  /// Hands over the spans recorded so far and starts again. Those that a device has not ended
  /// remain, for a later call.
  std::vector<Span> take();

 private:
  struct Pending {
    Span span;
    StreamTime begin;
    StreamTime end;
  };

  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<Pending> pending_;
};

/// Records what is put on a stream during its lifetime.
class ScopedSpan {
 public:
  ScopedSpan(Recorder& recorder, Stream& stream, const Span& span)
      : recorder_(recorder), stream_(stream), span_(span), begin_(stream.time()) {}
  ~ScopedSpan() {
    try {
      recorder_.add(span_, begin_, stream_.time());
    } catch (const std::exception&) {
      // A device that cannot tell the time any more is broken, which the next wait for it tells.
    }
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  Recorder& recorder_;
  Stream& stream_;
  const Span span_;
  const StreamTime begin_;
};

}  // namespace zerolab
