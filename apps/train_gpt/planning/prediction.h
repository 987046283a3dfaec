#pragma once

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/metrics/records.h"
#include "apps/train_gpt/planning/device_model.h"

namespace zerolab::app {

/// What a step takes of rank 0 under one stage at one number of ranks, by a dry run of the real
/// model and engine.
///
/// All ranks hold and send the same bytes, with one exception. An all-reduce cuts a bucket into N
/// chunks, of which a rank sends N - 1. Where N does not divide the bucket (contiguous layout), the
/// chunks of some ranks are one element longer.
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

/// Predicts a step of a resolved configuration, whose `launch.ranks` may be any number and whose
/// `launch.memory_limit` does not count. The kernels have the workspaces of `imitated`'s. Throws
/// `ConfigError` where a tensor's bytes would overflow.
Prediction predict(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                   const DeviceModel& device);

/// Elements of the largest tensor of a step: the MLP's activations, or the logits.
double largest_tensor_numel(const RunConfig& config, int64_t vocab_size);
/// Of one tensor: with as many, bytes would overflow.
inline constexpr double kMostTensorElements = 0x1p55;

/// `config` with another number of ranks, and its micro-batch and accumulation: the global batch
/// grows with the ranks.
RunConfig with_ranks(RunConfig config, int64_t ranks);

}  // namespace zerolab::app
