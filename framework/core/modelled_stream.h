#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "framework/core/stream.h"

namespace zerolab {

/// A stream of a dry run. Its time is modelled: work takes what `advance` says, waiting for an
/// event takes until the event's time, and the host, whose own work takes no time, reads the clock
/// of `time()` instead of the machine's. So spans, and with them exposed communication, come out of
/// the very schedule that a real run has.
class ModelledStream final : public Stream {
 public:
  Event record() override;
  /// Of another modelled stream.
  void wait(const Event& event) override;
  StreamTime time() override { return now_; }
  void synchronize() override {}
  void run_on_host(std::function<void()> work) override { work(); }

  Clock::time_point now() const { return now_; }
  /// Stands still until `time`, if that is later.
  void wait_until(Clock::time_point time) { now_ = std::max(now_, time); }
  void advance(Clock::duration duration);

 private:
  Clock::time_point now_;
};

std::unique_ptr<RankStreams> make_modelled_streams();

}  // namespace zerolab
