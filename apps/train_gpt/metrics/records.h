#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/writer.h"
#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "framework/core/recorder.h"
#include "framework/memory/ledger.h"
#include "zero/cost_model.h"
#include "zero/engine.h"

namespace zerolab::app {

/// Milliseconds of one step of rank 0. Forward, backward and optimizer are without exposed
/// communication; with it they add up to the step, but for the loop's own work. Wait and transfer
/// are what collectives spent, wherever they ran.
struct StepTimes {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;
  double comm_wait = 0;
  double comm_transfer = 0;
  double comm_exposed = 0;
  double step = 0;

  double comm_hidden() const { return std::max(0.0, comm_wait + comm_transfer - comm_exposed); }
};
/// Sums `spans` by kind; exposed time is taken out of the phase that it lies in.
StepTimes times_of(const std::vector<Span>& spans, double step_ms);

/// What collectives cost, by op and purpose.
using CommunicationEntries = std::map<CommunicationLedger::Key, CommunicationLedger::Entry>;
/// Adds each of `entries` to that of the same op and purpose.
void add_entries(CommunicationEntries& sum, const CommunicationEntries& entries);
/// The sum over all ops of one purpose.
CommunicationLedger::Entry total_of(const CommunicationEntries& entries, Purpose purpose);

/// One attempted step.
struct StepRecord {
  int64_t step = 0;  ///< from 1
  double learning_rate = 0;
  zero::StepResult result;
  StepTimes ms;
  /// Collectives that ended since the last record. With overlap_comm the parameters' gather of a
  /// step may end in the next.
  std::vector<CommunicationEntries> communication;  ///< by rank
  std::vector<MemoryLedger::Snapshot> memory;       ///< by rank; peaks within the step
  int stage = 0;
  /// Of rank 0, in the first two steps under each stage only; else empty.
  std::vector<MemoryLedger::Sample> timeline;
  /// Bucket buffers of rank 0 beyond the two that ZeRO-2 plans with, since the start, and the
  /// parameter that caused the last.
  int excess_buffers = 0;
  std::string excess_parameter;

  double tokens_per_s() const {
    return ms.step > 0 ? 1e3 * static_cast<double>(result.tokens) / ms.step : 0.0;
  }
};

/// The stage changed before `step`.
struct StageRecord {
  int64_t step = 0;
  int from = 0;
  int to = 0;
  double ms = 0;
  struct Memory {
    CategoryBytes before = {};
    CategoryBytes after = {};
    int64_t peak = 0;  ///< of all categories together, while state moved
  };
  std::vector<Memory> memory;  ///< by rank
};

/// Mean loss over (a part of) the validation split.
struct Evaluation {
  double loss = 0.0;   ///< mean over the rows' tokens, the same bits on all ranks
  int64_t tokens = 0;  ///< of all ranks
};

struct EvaluationRecord {
  int64_t step = 0;  ///< steps done
  Evaluation evaluation;
};

/// What the model writes.
struct SampleRecord {
  int64_t step = 0;   ///< steps done
  std::string text;   ///< after the prompt
  std::string error;  ///< why there is no more of it; empty: there is all
};

/// What is known before the first step.
struct RunInfo {
  zero::StagePlan plan;
  std::string_view communicator;  ///< "local" or "nccl"
  int64_t vocab_size = 0;
  int64_t num_params = 0;
  int64_t padding = 0;  ///< elements of the flat buffer
  int64_t num_buckets = 0;
  std::shared_ptr<const zero::Layout> layout;
  std::vector<zero::StateBytes> state;
  zero::CommunicationBytes communication;  ///< a step, mean over the ranks: always whole bytes
};

class Trace;

/// Hears of a run, on rank 0's thread.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepRecord&) {}
  virtual void on_stage(const StageRecord&) {}
  virtual void on_evaluation(const EvaluationRecord&) {}
  virtual void on_sample(const SampleRecord&) {}
  /// Some steps after its own, since a checkpoint is written in the background.
  virtual void on_checkpoint(const checkpoint::Saved&) {}
  /// After the last step: the model's parameters, all of them up to date.
  virtual void on_end(const std::vector<Parameter*>&) {}
  /// When the steps that `[log]` traces have passed, or the run has ended before, with an error
  /// too.
  virtual void on_trace(const Trace&) {}
};

/// What collectives of one purpose cost a step: means over the ranks.
struct CommunicationMean {
  double bytes_sent = 0;
  double wait_ms = 0;
  double transfer_ms = 0;
};

/// What remains of a run.
struct RunSummary {
  RunInfo info;       ///< as it began
  int64_t steps = 0;  ///< attempted; without those before a resume
  int64_t last_step = 0;
  int64_t skipped_steps = 0;  ///< their gradients were not finite
  bool stopped = false;       ///< before run.steps, on request
  int excess_buffers = 0;     ///< see StepRecord
  std::vector<double> losses;
  std::optional<Evaluation> evaluation;             ///< the last
  double tokens_per_s = 0;                          ///< median of the steps after the first
  StepTimes ms;                                     ///< means of the steps after the first
  std::vector<MemoryLedger::Snapshot> memory;       ///< by rank, at its highest step
  std::vector<CommunicationEntries> communication;  ///< by rank, the whole run
  std::string checkpoint_error;  ///< why the last checkpoint failed; empty: it did not
  std::string trace_error;       ///< why there is no trace; empty: there is, or none was asked for

  CommunicationMean communication_mean(Purpose purpose) const;
  /// Gradients and parameters, mean over the ranks.
  double bytes_sent_per_step() const;
};

}  // namespace zerolab::app
