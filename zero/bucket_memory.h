#pragma once

#include <vector>

#include "zero/gradient_reducer.h"
#include "zero/gradient_storage.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// Where the gradients of a micro-batch lie until their bucket is reduced (`GradientMemory`).
///
/// kView: in the flat gradient buffer. kBuffer: in a buffer of the bucket, allocated at the first
/// gradient. kPacked: in tensors of their own, copied into the bucket's buffer when that is taken.
/// At most two ordinary buffers live: a third waits for the oldest reduction. The buffer of a
/// bucket whose gradient is complete only at the end (a tied parameter's) is not counted.
class BucketMemory {
 public:
  /// All but the plan outlive it.
  BucketMemory(RankContext& context, const Layout& layout, const StagePlan& plan,
               const GradientStorage& storage, GradientReducer& reducer);

  /// Where this micro-batch's gradient of a parameter is written; one-dimensional.
  Tensor gradient(int parameter);
  /// The memory of a bucket all of whose gradients have been written, to reduce: a view, or the
  /// buffer, which the caller now holds alone. Padding is zero.
  Tensor take(int bucket);

  /// Buffers that had to be allocated beyond the two, and the parameter that caused the last one
  /// (-1: none).
  int excess_buffers() const { return excess_buffers_; }
  int excess_parameter() const { return excess_parameter_; }

 private:
  static constexpr int kOrdinaryBuffers = 2;  // one being filled, one being reduced
  bool is_ordinary(int bucket) const;
  void allocate(int bucket, int parameter);
  void pack(int bucket);
  void zero_padding(int bucket);
  /// `range` within its bucket's memory.
  Tensor within_bucket(const ParameterRange& range) const;

  RankContext& context_;
  const Layout& layout_;
  const StagePlan plan_;
  const GradientStorage& storage_;
  GradientReducer& reducer_;
  std::vector<Tensor> buckets_;  ///< undefined while a buffer is not allocated
  std::vector<Tensor> sources_;  ///< kPacked: each parameter's gradient of this micro-batch
  int open_buffers_ = 0;         ///< ordinary, allocated, not yet taken
  int excess_buffers_ = 0;
  int excess_parameter_ = -1;
};

}  // namespace zerolab::zero
