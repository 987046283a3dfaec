#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

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

using Clock = std::chrono::steady_clock;

/// One piece of time of one rank. `name` has static storage.
struct Span {
  SpanKind kind;
  std::string_view name;
  int bucket = -1;
  int64_t bytes = 0;
  Clock::time_point begin;
  Clock::time_point end;

  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(end - begin).count();
  }
};

/// The spans of one rank since the last `take`: the one source of every time in logs, tables and
/// traces. Thread-safe: the communication stream records from its own thread.
class Recorder {
 public:
  void add(const Span& span);
  /// Hands over the spans recorded so far and starts again.
  std::vector<Span> take();

 private:
  std::mutex mutex_;
  std::vector<Span> spans_;
};

/// Records its own lifetime.
class ScopedSpan {
 public:
  ScopedSpan(Recorder& recorder, SpanKind kind, std::string_view name, int bucket = -1)
      : recorder_(recorder), span_{kind, name, bucket, 0, Clock::now(), {}} {}
  ~ScopedSpan() {
    span_.end = Clock::now();
    recorder_.add(span_);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  Recorder& recorder_;
  Span span_;
};

}  // namespace zerolab
