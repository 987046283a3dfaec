#pragma once

#include <cstdint>
#include <string_view>

#include "zero/options.h"

namespace zerolab::zero {

/// What a stage partitions among the ranks; the rest is replicated (Rajbhandari et al., "ZeRO", SC
/// 2020, §5). Stage 0 (DDP): nothing. Stage 1: optimizer state. Stage 2: gradients too.
struct Partitioning {
  bool gradients = false;
  bool optimizer_state = false;
};

/// How the gradients of a bucket become their mean over the ranks.
enum class Reduction : uint8_t {
  kAllReduce,      ///< on every rank
  kReduceScatter,  ///< each rank gets its slice: one collective a bucket (bucketed layout)
  kReduceToOwner,  ///< each slice goes to its owner: one `reduce` a slice (contiguous layout)
};

constexpr std::string_view name_of(Reduction reduction) {
  constexpr std::string_view kNames[] = {"all-reduce", "reduce-scatter", "per-owner reduce"};
  return kNames[static_cast<int>(reduction)];
}

/// Where the gradients of a micro-batch are written.
enum class GradientMemory : uint8_t {
  kView,    ///< into the flat gradient buffer, of which the buckets are views
  kBuffer,  ///< into a buffer of their bucket, which is reduced and freed in the micro-batch
  kPacked,  ///< elsewhere; packed into a buffer of their bucket when it is reduced
};

/// All that follows from the options, the stage, the parameters' dtype and the number of ranks:
/// resolved once, then only read. Whoever needs it holds a copy; a change of stage makes a new one.
struct StagePlan {
  /// Throws `ConfigError` with the reason when no engine can do all that is asked for. The table of
  /// what is legal is in stage_plan.cpp and docs/engine.md.
  explicit StagePlan(const EngineOptions& options = {}, DType parameters = DType::kFloat32,
                     int world_size = 1);

  int stage;
  Partitioning partitions;
  Reduction reduction;
  /// Before the sum over the ranks each gradient is divided by the first, after it by the second.
  double divisor_before_sum;
  double divisor_after_sum;
  /// Gradients are reduced in each micro-batch, not once a step.
  bool reduces_each_micro_batch;
  bool overlap_comm;          ///< communication runs on a stream of its own
  bool contiguous_gradients;  ///< kept gradients lie in one tensor
  GradientMemory gradient_memory;
  DType parameter_dtype;
  DType accumulation_dtype;   ///< of gradients kept until the step; auto: the parameters' dtype
                              ///< with one micro-batch a step, else fp32
  DType communication_dtype;  ///< of buckets; auto: the parameters' dtype where each micro-batch is
                              ///< reduced, else `accumulation_dtype`
  DType gradient_dtype;       ///< that the backward writes
  bool has_master_weights;    ///< fp32 copies of 16-bit parameters
  int64_t alignment;          ///< elements
  int64_t allgather_bucket_size;  ///< elements
  int micro_batches;              ///< a step
};

}  // namespace zerolab::zero
