#pragma once

#include <unordered_map>
#include <vector>

#include "framework/autograd/parameter.h"
#include "zero/bucket_memory.h"
#include "zero/gradient_reducer.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// Gives every parameter gradient its place in a bucket, knows when a bucket is complete, and hands
/// complete buckets to the reducer, always in bucket order, so that all ranks call the same
/// collectives in the same order.
///
/// Stages 0 and 1 fill buckets over all micro-batches and reduce them in the last. Stage 2 (and
/// `reduce_each_micro_batch`) reduces them in each.
class GradientBuckets final : public GradientSink {
 public:
  /// Attaches itself to the parameters, which are in the layout's order. All but the plan outlive
  /// it.
  GradientBuckets(RankContext& context, const Layout& layout, const StagePlan& plan,
                  const std::vector<Parameter*>& parameters, BucketMemory& memory,
                  GradientReducer& reducer);
  /// Detaches itself from the parameters.
  ~GradientBuckets() override;

  /// `index` of the step's micro-batches, from 0.
  void begin_micro_batch(int index);
  /// Gradients that complete in the micro-batch's last backward are final: their buckets may be
  /// reduced.
  void begin_backward(bool last_backward) { last_backward_ = last_backward; }
  /// Parameters that no backward reached get a zero gradient; all buckets that are due are reduced.
  void end_micro_batch();

  autograd::Destination open(Parameter& parameter) override;
  void ready(Parameter& parameter) override;

 private:
  bool reduces_now() const;
  void complete(int parameter);

  RankContext& context_;
  const Layout& layout_;
  const StagePlan plan_;
  const std::vector<Parameter*> parameters_;
  BucketMemory& memory_;
  GradientReducer& reducer_;
  std::unordered_map<const Parameter*, int> index_of_;
  std::vector<int> incomplete_;    ///< by bucket: gradients still to come in this micro-batch
  std::vector<char> contributed_;  ///< whether the parameter's memory holds a gradient to add to
  std::vector<char> completed_;    ///< in this micro-batch
  int micro_batch_ = 0;
  bool last_backward_ = false;
  int next_bucket_ = 0;  ///< the next to reduce
};

}  // namespace zerolab::zero
