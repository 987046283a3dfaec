#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
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
  kModule,        ///< a module's forward or backward; only while the rank is traced
  kRelease,       ///< a point: what a bucket's reduction waits for is done; only while traced
};
inline constexpr int kNumSpanKinds = 9;
std::string_view name_of(SpanKind kind);

/// One piece of time of one rank.
struct Span {
  SpanKind kind;
  std::string name;
  int bucket = -1;
  int64_t bytes = 0;
  std::string_view purpose = {};  ///< of a collective (static storage)
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
  void add(const Span& span) { add({span}); }
  /// Spans that stand together in what `take` hands over.
  void add(std::initializer_list<Span> spans);
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
  ScopedSpan(Recorder& recorder, Stream& stream, Span span)
      : recorder_(recorder), stream_(stream), span_(std::move(span)), begin_(stream.time()) {}
  ~ScopedSpan() {
    try {
      recorder_.add(span_, begin_, stream_.time());
    } catch (const std::exception&) {
      // A device that no longer knows the time is broken; the next wait for it says so.
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
