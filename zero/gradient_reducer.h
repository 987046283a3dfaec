#pragma once

#include <deque>

#include "framework/comm/communicator.h"
#include "framework/core/rank_context.h"
#include "zero/layout.h"
#include "zero/options.h"

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
  /// `home`: the gradients kept until the step: the flat buffer, or this rank's partition of it.
  /// All outlive the reducer.
  GradientReducer(RankContext& context, Communicator& communicator, const Layout& layout,
                  const EngineOptions& options, const Tensor& home);

  /// Reduces `memory`, the whole bucket. Where it is a buffer of its own
  /// (`EngineOptions::buffered`), the result is copied to its home, or added to what earlier
  /// micro-batches left there.
  void reduce(int bucket, Tensor memory, bool add_to_home);

  /// Buffers whose reduction has not been waited for.
  int in_flight() const { return static_cast<int>(in_flight_.size()); }
  /// Makes the compute stream wait for the oldest reduction in flight and gives its buffer back.
  void retire_oldest();
  /// The same for all.
  void retire_all();

 private:
  struct InFlight {
    int bucket;
    Tensor memory;
    Event done;
  };
  void deliver(Stream& stream, const Bucket& bucket, const Tensor& memory, bool add_to_home);

  RankContext& context_;
  Communicator& communicator_;
  const Layout& layout_;
  const EngineOptions& options_;
  const Tensor home_;
  std::deque<InFlight> in_flight_;
};

}  // namespace zerolab::zero
