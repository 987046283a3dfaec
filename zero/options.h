#pragma once

#include <cstdint>
#include <string_view>

namespace zerolab::zero {

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

/// The keys of `[zero]` that are built, with DeepSpeed's meanings, and what else decides a step.
struct EngineOptions {
  int stage = 0;
  /// true: reduce-scatter of gradients in stages 1 and 2. false: all-reduce, as the first ZeRO-1
  /// did.
  bool reduce_scatter = true;
  int64_t reduce_bucket_size = 0;  ///< elements; 0: auto
  bool overlap_comm = false;  ///< reduce on the communication stream while the backward goes on
  /// Stages 0 and 1 reduce each micro-batch, as stage 2 always does: the same order of additions.
  bool reduce_each_micro_batch = false;
  int gradient_accumulation_steps = 1;
  double gradient_clipping = 0.0;  ///< largest global norm; 0: none
  int max_skipped_steps = 10;      ///< consecutive non-finite steps before the run ends
  int64_t alignment = 128;         ///< elements
  bool poison = false;             ///< fill un-owned slices with NaN as soon as they mean nothing

  /// Gradients leave the backward through buffers of one bucket, not through the flat gradient
  /// buffer.
  bool buffered() const { return partitioning_of(stage).gradients || reduce_each_micro_batch; }
  bool uses_reduce_scatter() const {
    return partitioning_of(stage).optimizer_state && reduce_scatter;
  }
};

}  // namespace zerolab::zero
