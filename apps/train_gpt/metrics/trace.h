#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/run_file.h"
#include "framework/core/recorder.h"
#include "framework/memory/ledger.h"

namespace zerolab::app {

/// What all ranks did in a window of steps (docs/trace.md), out of their recorders and ledgers.
/// Ranks add at the same time, each its own; whoever reads makes sure that they have.
class Trace {
 public:
  /// The window of `[log]`; an empty one unless `log.trace`.
  explicit Trace(const RunConfig& config);

  bool wanted() const { return last_step_ > 0; }
  bool covers(int64_t step) const { return first_step_ <= step && step <= last_step_; }
  int64_t last_step() const { return last_step_; }

  /// What has been taken from the rank's recorder in or after `step`, and its ledger's timeline.
  /// The first spans lose what the step before the window began; those that come first after the
  /// window are kept only if its last step began them. Known points of the timeline are passed
  /// over.
  void add(int rank, int64_t step, const std::vector<Span>& spans, const MemoryLedger& ledger);

  /// Writes trace-event JSON, as Perfetto and chrome://tracing read it.
  void write(RunFile& file) const;

 private:
  struct Rank {
    std::vector<Span> spans;
    std::vector<MemoryLedger::Sample> memory;
    bool complete = false;
  };

  const nlohmann::json about_;  ///< of the run
  const int64_t first_step_;
  const int64_t last_step_;
  const Clock::time_point origin_ = Clock::now();
  std::vector<Rank> ranks_;
};

}  // namespace zerolab::app
