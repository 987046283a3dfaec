#pragma once

#include <vector>

#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// The memory of the gradients that a rank keeps until the step, in
/// `StagePlan::accumulation_dtype`: the flat buffer (stages 0 and 1), this rank's partition of it
/// (stage 2), or, without `contiguous_gradients` in stages 0 and 1, one tensor a parameter.
class GradientStorage {
 public:
  GradientStorage(RankContext& context, const Layout& layout, const StagePlan& plan);

  /// A segment's gradient; in stage 2 of what this rank owns.
  Tensor at(const Segment& segment) const;
  /// A whole bucket, padding included. Only of the flat buffer.
  Tensor bucket(int index) const;

 private:
  const Layout& layout_;
  const bool partitioned_;
  Tensor memory_;                 ///< flat or partition; undefined where parameters have their own
  std::vector<Tensor> separate_;  ///< by parameter
};

}  // namespace zerolab::zero
