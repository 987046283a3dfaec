#pragma once

#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "optim/optimizer.h"
#include "zero/layout.h"
#include "zero/options.h"

namespace zerolab::zero {

/// Updates what this rank owns of the flat parameter buffer: all of it, or its partition; then
/// gathers the rest.
class PartitionedOptimizer {
 public:
  /// `parameters`: the flat buffer. `gradients`: the flat buffer, or the partition's.
  /// `is_decayed[p]`: whether weight decay applies to parameter p. Allocates the optimizer state,
  /// zeroed. All outlive it.
  PartitionedOptimizer(RankContext& context, Communicator& communicator, const Layout& layout,
                       const EngineOptions& options, const optim::Optimizer& optimizer,
                       std::vector<Parameter*> handles, const Tensor& parameters,
                       const Tensor& gradients);

  /// Adds the squares of this rank's share of the reduced gradients to `statistics`
  /// (Backend::gradient_statistics). Indices are flat offsets. The shares of all ranks are
  /// disjoint, under every stage.
  void gradient_statistics(const Tensor& statistics);
  /// One update of everything that this rank owns.
  void update(double learning_rate, int64_t step, double gradient_scale);
  /// Brings every other rank's updated slices, bucket by bucket, those that the next forward reads
  /// first coming first. With overlap the parameters' ready events tell when. Nothing where nothing
  /// is partitioned.
  void gather_parameters();
  /// Fills what the reduction left without meaning, and what was consumed, with NaN.
  void poison_gradients();

  /// State tensors by name, in the order of `optim::Optimizer::state_names`.
  const std::vector<Tensor>& states() const { return states_; }
  const std::vector<Segment>& owned() const { return owned_; }

 private:
  int64_t gradient_offset(const Segment& segment) const;
  int64_t state_offset(const Segment& segment) const;

  RankContext& context_;
  Communicator& communicator_;
  const Layout& layout_;
  const EngineOptions& options_;
  const Partitioning partitioned_;
  const optim::Optimizer& optimizer_;
  const std::vector<Parameter*> handles_;
  const Tensor parameters_;
  const Tensor gradients_;
  const std::vector<Segment> share_;  ///< this rank's slices: what it counts in the norm
  const std::vector<Segment> owned_;  ///< what it updates
  std::vector<Tensor> states_;
};

}  // namespace zerolab::zero
