#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/core/dtype.h"
#include "optim/loss_scaler.h"
#include "zero/layout.h"

namespace zerolab::zero {

/// Stages are numbered 0 (DDP), 1 (ZeRO-1) and 2 (ZeRO-2).
inline constexpr int kLastStage = 2;

/// What a stage partitions among the ranks; the rest is replicated (Rajbhandari et al., "ZeRO", SC
/// 2020, §5).
struct Partitioning {
  bool gradients = false;
  bool optimizer_state = false;
};

/// Stage 0 (DDP): nothing. Stage 1: optimizer state. Stage 2: optimizer state and gradients.
constexpr Partitioning partitioning_of(int stage) {
  return {.gradients = stage >= 2, .optimizer_state = stage >= 1};
}

/// "DDP", "ZeRO-1", "ZeRO-2".
constexpr std::string_view name_of_stage(int stage) {
  return stage == 0 ? "DDP" : stage == 1 ? "ZeRO-1" : "ZeRO-2";
}

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

/// The keys of `[zero]`, with DeepSpeed's meanings, and what else decides a step.
struct EngineOptions {
  int stage = 0;
  LayoutKind layout = LayoutKind::kBucketed;
  /// true: stages 1 and 2 reduce gradients to their owners only. false: all-reduce, as the first
  /// ZeRO-1 did.
  bool reduce_scatter = true;
  int64_t reduce_bucket_size = 0;     ///< elements; 0: auto
  int64_t allgather_bucket_size = 0;  ///< elements of all ranks; 0: 5e8. Contiguous layout only
  bool contiguous_gradients = true;   ///< false: gradients stay in tensors of their own
  bool overlap_comm = false;  ///< reduce on the communication stream while the backward goes on
  /// With `reduce_scatter = false` only: divide by N before the sum instead of after it.
  bool prescale_gradients = false;
  /// With `reduce_scatter = false` only: the part of the division by N that comes before the sum.
  double gradient_predivide_factor = 1.0;
  std::optional<DType> communication_dtype = {};          ///< of the buckets; none: see below
  std::optional<DType> gradient_accumulation_dtype = {};  ///< of kept gradients; none: see below
  /// Stages 0 and 1 reduce each micro-batch, as stage 2 always does: the same order of additions.
  bool reduce_each_micro_batch = false;
  int gradient_accumulation_steps = 1;
  double gradient_clipping = 0.0;  ///< largest global norm; 0: none
  int max_skipped_steps = 10;      ///< consecutive non-finite steps before the run ends
  optim::LossScaleOptions loss_scale = {};
  int64_t alignment = 128;  ///< elements
  /// Debugging: fill un-owned slices with NaN as soon as they mean nothing, and tell which ranks a
  /// non-finite gradient came from.
  bool poison = false;
  int64_t hash_every = 0;  ///< steps between two comparisons of the ranks' parameters; 0: none
  /// Of whatever else the ranks must agree on; compared when the engine is made.
  uint64_t configuration_hash = 0;
  /// Of all parameters; set by the engine. 16-bit ones get fp32 master weights.
  DType parameter_dtype = DType::kFloat32;

  /// Throws `ConfigError` with the reason when no engine can do all that is asked for. The table of
  /// what is legal is in options.cpp and docs/engine.md.
  void check() const;
  /// Equal hashes: the ranks were asked for the same.
  uint64_t hash() const;

  bool has_master_weights() const { return size_of(parameter_dtype) == 2; }
  /// Each micro-batch's gradients are reduced in it, and leave the backward through buffers.
  bool reduces_each_micro_batch() const {
    return partitioning_of(stage).gradients || reduce_each_micro_batch;
  }
  Reduction reduction() const;
  GradientMemory gradient_memory() const;
  /// The dtype that the backward writes a micro-batch's gradients in.
  DType gradient_type() const;
  /// The dtype of gradients kept until the step: the parameters' at k = 1, else fp32.
  DType accumulation_type() const;
  /// The dtype of buckets: the parameters' where each micro-batch is reduced, else the kept
  /// gradients'.
  DType communication_type() const;
};

}  // namespace zerolab::zero
