#pragma once

#include <cstdint>
#include <optional>
#include <tuple>

#include "framework/core/dtype.h"
#include "optim/loss_scaler.h"
#include "zero/layout.h"
#include "zero/stage.h"

namespace zerolab::zero {

/// What a user asks of the engine: the keys of `[zero]`, with DeepSpeed's meanings, and the keys of
/// other sections that decide a step. What follows from them is a `StagePlan`.
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
  std::optional<DType> communication_dtype = {};          ///< none: see StagePlan
  std::optional<DType> gradient_accumulation_dtype = {};  ///< none: see StagePlan
  /// Stages 0 and 1 reduce each micro-batch, as stage 2 always does: the same order of additions.
  bool reduce_each_micro_batch = false;
  int gradient_accumulation_steps = 1;
  double gradient_clipping = 0.0;  ///< largest global norm; 0: none
  int max_skipped_steps = 10;      ///< consecutive non-finite steps before the run ends
  optim::LossScaleOptions loss_scale = {};
  int64_t alignment = 128;  ///< elements

  /// Equal hashes: the ranks were asked for the same.
  uint64_t hash() const;
  /// References to all fields, in order: what the hash is made from. A new field does not compile
  /// until it is listed here.
  static auto fields_of(auto& options) {
    auto& [stage, layout, reduce_scatter, reduce_bucket_size, allgather_bucket_size,
           contiguous_gradients, overlap_comm, prescale_gradients, gradient_predivide_factor,
           communication_dtype, gradient_accumulation_dtype, reduce_each_micro_batch,
           gradient_accumulation_steps, gradient_clipping, max_skipped_steps, loss_scale,
           alignment] = options;
    return std::tuple_cat(
        std::tie(stage, layout, reduce_scatter, reduce_bucket_size, allgather_bucket_size,
                 contiguous_gradients, overlap_comm, prescale_gradients, gradient_predivide_factor,
                 communication_dtype, gradient_accumulation_dtype, reduce_each_micro_batch,
                 gradient_accumulation_steps, gradient_clipping, max_skipped_steps, alignment),
        optim::LossScaleOptions::fields_of(loss_scale));
  }
};

/// Checks that cost time or memory.
struct DebugOptions {
  /// Fill un-owned slices and used gradients with NaN as soon as they mean nothing, so that a wrong
  /// read shows in the loss, and tell which ranks a non-finite gradient came from.
  bool poison = false;
  int64_t hash_every = 0;  ///< steps between two comparisons of the ranks' parameters; 0: none

  uint64_t hash() const;
  static auto fields_of(auto& options) {
    auto& [poison, hash_every] = options;
    return std::tie(poison, hash_every);
  }
};

}  // namespace zerolab::zero
