#pragma once

#include <deque>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/tensor/rank_context.h"
#include "zero/gradient_storage.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// Reduces buckets of gradients over the ranks and brings what this rank keeps to where it stays
/// until the step.
///
/// Without overlap a reduction runs on the compute stream. With overlap it runs on the
/// communication stream, which first waits for everything that has been launched on the compute
/// stream, hence for every producer of the bucket. The memory of a bucket lives in its in-flight
/// handle and is given back only after the reduction's event.
class GradientReducer {
 public:
  /// `local_statistics` (core/exact_sum.h; may be undefined): of this rank's gradients before they
  /// are reduced; they tell which rank a non-finite one came from. All outlive the reducer.
  GradientReducer(RankContext& context, Communicator& communicator, const Layout& layout,
                  const StagePlan& plan, const GradientStorage& storage,
                  const Tensor& local_statistics);

  /// Reduces `memory`, the whole bucket. Unless it is a view of the kept gradients, the result is
  /// copied there, or added to what earlier micro-batches left.
  void reduce(int bucket, Tensor memory, bool accumulate);

  /// Makes the compute stream wait for the oldest reductions and gives their buffers back, until at
  /// most `keep` are in flight.
  void retire(int keep = 0);

 private:
  struct InFlight {
    int bucket;
    Tensor memory;
    Event done;
  };
  void run_reduction(Stream& stream, int bucket, const Tensor& memory, bool accumulate);

  RankContext& context_;
  Communicator& communicator_;
  const Layout& layout_;
  const StagePlan plan_;
  const GradientStorage& storage_;
  const Tensor local_statistics_;
  std::vector<std::vector<Segment>> kept_;  ///< by bucket: what of it this rank keeps
  std::deque<InFlight> in_flight_;
};

}  // namespace zerolab::zero
