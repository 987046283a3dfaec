#pragma once

#include <functional>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/planning/device_model.h"

namespace zerolab::app {

/// What one rank's step takes under one stage at one number of ranks, by a dry run of the real
/// model and engine. All ranks hold and send the same bytes, with one exception: an all-reduce of a
/// bucket that N does not divide (contiguous layout) cuts it into chunks, one element longer on
/// some ranks, of which it sends N - 1. The bytes are those that rank 0 sends.
struct Prediction {
  zero::StagePlan plan;
  int64_t bucket_size = 0;  ///< elements
  int64_t ranks = 0;
  int64_t num_params = 0;
  int64_t padding = 0;  ///< elements of the flat buffer
  int64_t num_buckets = 0;
  int64_t start_peak = 0;              ///< bytes held at most while model and engine are made
  MemoryLedger::Snapshot memory;       ///< peaks of a step, and what is held after it
  CommunicationEntries communication;  ///< of a step
  zero::CommunicationBytes formula;    ///< of rank 0
  StepTimes ms;                        ///< of a step on the machine

  /// Bytes that a rank needs: the step's peak, or that of the start.
  int64_t peak() const { return std::max(start_peak, memory.total_peak); }
  /// Parameters, gradients, optimizer state and master weights after a step.
  int64_t model_states() const;
  int64_t bytes_sent(Purpose purpose) const;
};

/// Of a resolved configuration whose `launch.ranks` may be any number; `launch.memory_limit` does
/// not count. `imitated` tells the kernels' workspaces.
Prediction predict(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                   const Machine& machine);

/// The largest scale of a model or batch whose peak is within a rank's memory.
struct Largest {
  int64_t value = 0;       ///< 0: not even 1 fits
  int64_t num_params = 0;  ///< of that model
  bool more_fits = false;  ///< it was not looked for beyond
};
Largest largest_micro_batch(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                            const Machine& machine);
/// By model.n_layer, all else the same.
Largest largest_model(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                      const Machine& machine);

/// The largest x within [1, limit] for which `bytes` is at most `memory`; 0: none. `bytes` grows
/// with x; the closer to a line, the fewer calls.
int64_t largest_that_fits(const std::function<int64_t(int64_t x)>& bytes, int64_t memory,
                          int64_t limit);

/// `config` with another number of ranks, and its micro-batch and accumulation: the global batch
/// grows with the ranks.
RunConfig with_ranks(RunConfig config, int64_t ranks);

}  // namespace zerolab::app
