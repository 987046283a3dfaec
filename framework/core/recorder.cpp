#include "framework/core/recorder.h"

#include <utility>

namespace zerolab {

std::string_view name_of(SpanKind kind) {
  constexpr std::string_view kNames[kNumSpanKinds] = {"forward",      "backward",  "optimizer",
                                                      "step",         "comm_wait", "comm_transfer",
                                                      "comm_exposed", "module",    "release"};
  return kNames[static_cast<int>(kind)];
}

void Recorder::add(std::initializer_list<Span> spans) {
  const std::lock_guard lock(mutex_);
  spans_.insert(spans_.end(), spans);
}

void Recorder::add(const Span& span, const StreamTime& begin, const StreamTime& end) {
  const std::lock_guard lock(mutex_);
  pending_.push_back({span, begin, end});
}

std::vector<Span> Recorder::take() {
  const std::lock_guard lock(mutex_);
  std::erase_if(pending_, [&](Pending& pending) {
    const auto end = pending.end.get();
    if (end.has_value()) {
      pending.span.begin = pending.begin.get().value();
      pending.span.end = *end;
      spans_.push_back(pending.span);
    }
    return end.has_value();
  });
  return std::exchange(spans_, {});
}

}  // namespace zerolab
