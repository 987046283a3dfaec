#pragma once

#include <string>
#include <vector>

#include "framework/autograd/parameter.h"
#include "framework/comm/communicator.h"
#include "optim/optimizer.h"
#include "zero/gradient_home.h"
#include "zero/layout.h"
#include "zero/options.h"

namespace zerolab::zero {

/// Updates what this rank owns of the parameters: all, or its partition; then gathers the rest.
/// Holds the optimizer state, and the fp32 master weights of 16-bit parameters, of what it owns.
class PartitionedOptimizer {
 public:
  /// `parameters`: the flat buffer. Allocates the optimizer state, zeroed, and copies master
  /// weights from the parameters. All outlive it.
  PartitionedOptimizer(RankContext& context, Communicator& communicator, const Layout& layout,
                       const EngineOptions& options, const optim::Optimizer& optimizer,
                       const std::vector<Parameter*>& handles, const Tensor& parameters);

  /// Adds the squares of this rank's share of the reduced gradients to `statistics`
  /// (Backend::gradient_statistics). Indices are flat offsets. The shares of all ranks are
  /// disjoint, under every stage.
  void gradient_statistics(const GradientHome& gradients, const Tensor& statistics);
  /// One update of everything that this rank owns; each parameter's group has its say over
  /// learning rate and weight decay.
  void update(const GradientHome& gradients, const optim::UpdateArguments& arguments);
  /// Brings every other rank's updated slices, those that the next forward reads first coming
  /// first. With overlap the parameters' ready events tell when. Nothing where nothing is
  /// partitioned.
  void gather_parameters();
  /// Fills what was consumed, and what the reduction left without meaning, with NaN.
  void poison_gradients(const GradientHome& gradients);

  /// Moves state and master weights to where the options' present stage wants them, tensor by
  /// tensor: from the partitions to every rank, or the other way round. All ranks take part.
  void rehome();
  /// Takes over state and master weights of the parameters that `other` has too. Both stand at
  /// stage 0; the layouts may differ.
  void adopt(const PartitionedOptimizer& other);

  /// State tensors by name, in the order of `optim::Optimizer::state_names`; of what is owned, with
  /// its padding.
  const std::vector<Tensor>& states() const { return states_; }
  /// Undefined in fp32 training.
  const Tensor& master_weights() const { return master_; }
  const std::vector<Segment>& owned() const { return owned_; }
  /// This rank's slices, owned under every stage: those of all ranks are all there is, each once.
  const std::vector<Segment>& share() const { return share_; }
  /// The fp32 weights of an owned segment: the master weights', or the parameters'.
  Tensor weights(const Segment& segment) const;
  /// Its state tensors' parts, and what the tensors are called.
  std::vector<Tensor> states(const Segment& segment) const;
  std::vector<std::string> state_names() const { return optimizer_.state_names(); }
  /// Brings all ranks' parameters to owned weights that were written from outside.
  void publish();

 private:
  void round_weights(const Segment& segment);
  int64_t offset_of(const Segment& segment) const {
    return partitioned_ ? segment.partition_offset : segment.flat_offset;
  }
  Tensor allocate(Category category) const;
  void gather(Stream& stream, const Gather& gather, const Tensor& flat, Purpose purpose);
  void rehome(Tensor& tensor, Category category);
  void fill_with_nan(const Tensor& tensor);

  RankContext& context_;
  Communicator& communicator_;
  const Layout& layout_;
  const EngineOptions& options_;
  const optim::Optimizer& optimizer_;
  const std::vector<Parameter*> handles_;
  const Tensor parameters_;
  const std::vector<Segment> share_;  ///< this rank's slices: what it counts in the norm
  const std::vector<Gather> gathers_;
  bool partitioned_;            ///< whether state is, now
  std::vector<Segment> owned_;  ///< what it updates
  std::vector<Tensor> states_;
  Tensor master_;
};

}  // namespace zerolab::zero
