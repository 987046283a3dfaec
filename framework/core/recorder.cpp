#include "framework/core/recorder.h"

#include <utility>

namespace zerolab {

std::string_view name_of(SpanKind kind) {
  constexpr std::string_view kNames[kNumSpanKinds] = {
      "forward", "backward", "optimizer", "step", "comm_wait", "comm_transfer", "comm_exposed"};
  return kNames[static_cast<int>(kind)];
}

void Recorder::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  spans_.push_back(span);
}

std::vector<Span> Recorder::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(spans_, {});
}

}  // namespace zerolab
