#pragma once

#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "optim/optimizer.h"
#include "zero/gradient_storage.h"
#include "zero/layout.h"
#include "zero/stage_plan.h"

namespace zerolab::zero {

/// Updates this rank's part of the parameters: all, or its partition; then gathers the rest. Holds
/// the optimizer state, and the fp32 master weights of 16-bit parameters, of what it updates.
class PartitionedOptimizer {
 public:
  /// `flat_parameters` holds the values of `parameters`. Allocates the optimizer state, zeroed, and
  /// copies master weights from the parameters. All but the plan outlive it.
  PartitionedOptimizer(RankContext& context, Communicator& communicator, const Layout& layout,
                       const StagePlan& plan, const optim::Optimizer& optimizer_rule,
                       const std::vector<Parameter*>& parameters, const Tensor& flat_parameters);

  /// One update of all `updated_segments`; each parameter's group has its say over learning rate
  /// and weight decay.
  void update(const GradientStorage& gradients, const optim::UpdateArguments& arguments);
  /// Brings every other rank's updated slices, those that the next forward reads first coming
  /// first. With overlap the parameters' ready events tell when. Nothing where nothing is
  /// partitioned.
  void gather_parameters();
  /// Brings all ranks' parameters to updated segments' weights that were written from outside.
  void sync_parameters_from_master();

  /// Moves state and master weights to where another stage's plan wants them, tensor by tensor:
  /// from the partitions to every rank, or the other way round. All ranks take part. When it
  /// throws, some may have moved: a call with the old plan brings these back.
  void repartition(const StagePlan& plan);
  /// Takes over state and master weights of the parameters that `other` has too. Both stand at
  /// stage 0; the layouts may differ.
  void copy_state_from(const PartitionedOptimizer& other);

  /// This rank's part of every parameter's elements under a stage that partitions. The partitions
  /// of all ranks hold each element once, under every stage.
  const std::vector<Segment>& partition_segments() const { return partition_segments_; }
  /// What this rank updates: its partition, or everything.
  const std::vector<Segment>& updated_segments() const { return updated_segments_; }
  /// The fp32 weights of an updated segment: the master weights', or the parameters'.
  Tensor weights(const Segment& segment) const;
  /// Its part of the state tensors, and what these are called.
  std::vector<Tensor> states(const Segment& segment) const;
  std::vector<std::string> state_names() const { return optimizer_rule_.state_names(); }
  /// State tensors in the order of `state_names`: of what is updated, with its padding.
  const std::vector<Tensor>& states() const { return states_; }
  /// Undefined in fp32 training.
  const Tensor& master_weights() const { return master_; }

 private:
  int64_t offset_of(const Segment& segment) const {
    return partitioned_ ? segment.partition_offset : segment.flat_offset;
  }
  Tensor allocate(Category category, bool partitioned) const;
  void round_weights(const Segment& segment);
  void gather(Stream& stream, const Gather& gather, const Tensor& flat, Purpose purpose);
  /// Of one state tensor.
  void repartition(Tensor& tensor, Category category, bool partitioned);

  RankContext& context_;
  Communicator& communicator_;
  const Layout& layout_;
  const bool overlap_comm_;
  const optim::Optimizer& optimizer_rule_;
  const std::vector<Parameter*> parameters_;
  const Tensor flat_parameters_;
  const std::vector<Segment> partition_segments_;
  const std::vector<Gather> gathers_;
  bool partitioned_;  ///< whether state is, now
  std::vector<Segment> updated_segments_;
  std::vector<Tensor> states_;
  Tensor master_;
};

}  // namespace zerolab::zero
