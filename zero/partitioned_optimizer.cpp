#include "zero/partitioned_optimizer.h"

#include <algorithm>

#include "framework/tensor/backend.h"

namespace zerolab::zero {

PartitionedOptimizer::PartitionedOptimizer(RankContext& context, Communicator& communicator,
                                           const Layout& layout, const StagePlan& plan,
                                           const optim::Optimizer& optimizer_rule,
                                           const std::vector<Parameter*>& parameters,
                                           const Tensor& flat_parameters)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      overlap_comm_(plan.overlap_comm),
      optimizer_rule_(optimizer_rule),
      parameters_(parameters),
      flat_parameters_(flat_parameters),
      partition_segments_(layout.segments(communicator.rank())),
      gathers_(layout.gathers(plan.allgather_bucket_size)),
      partitioned_(plan.partitions.optimizer_state),
      updated_segments_(partitioned_ ? partition_segments_ : layout.segments()) {
  for (size_t i = 0; i < optimizer_rule.state_names().size(); ++i) {
    states_.push_back(allocate(Category::kOptimizerState, partitioned_));
  }
  if (plan.has_master_weights) {
    master_ = allocate(Category::kMasterWeights, partitioned_);
    for (const Segment& segment : updated_segments_) {
      context.backend().copy(context.compute(),
                             flat_parameters_.range(segment.flat_offset, segment.numel),
                             weights(segment));
    }
  }
}

Tensor PartitionedOptimizer::allocate(Category category, bool partitioned) const {
  const CategoryScope scope(context_, category);
  const int64_t numel = partitioned ? layout_.partition_numel() : layout_.flat_numel();
  return Tensor::zeros(context_, Shape{numel}, DType::kFloat32);
}

void PartitionedOptimizer::update(const GradientStorage& gradients,
                                  const optim::UpdateArguments& arguments) {
  for (const Segment& segment : updated_segments_) {
    const optim::ParameterGroup group = optimizer_rule_.group_of(*parameters_[segment.parameter]);
    optim::UpdateArguments own = arguments;
    own.learning_rate *= group.learning_rate_factor;
    own.weight_decay_factor = group.weight_decay_factor;
    optimizer_rule_.update(context_.backend(), context_.compute(), own, gradients.at(segment),
                           weights(segment), states(segment));
    round_weights(segment);
  }
}

Tensor PartitionedOptimizer::weights(const Segment& segment) const {
  return master_.defined() ? master_.range(offset_of(segment), segment.numel)
                           : flat_parameters_.range(segment.flat_offset, segment.numel);
}

std::vector<Tensor> PartitionedOptimizer::states(const Segment& segment) const {
  std::vector<Tensor> ranges;
  for (const Tensor& state : states_) {
    ranges.push_back(state.range(offset_of(segment), segment.numel));
  }
  return ranges;
}

void PartitionedOptimizer::round_weights(const Segment& segment) {
  if (master_.defined()) {
    context_.backend().copy(context_.compute(), weights(segment),
                            flat_parameters_.range(segment.flat_offset, segment.numel));
  }
}

void PartitionedOptimizer::sync_parameters_from_master() {
  for (const Segment& segment : updated_segments_) {
    round_weights(segment);
  }
  gather_parameters();
}

void PartitionedOptimizer::gather(Stream& stream, const Gather& gather, const Tensor& flat,
                                  Purpose purpose) {
  const auto description =
      gather.bucket < 0 ? nullptr : layout_.buckets()[gather.bucket].description;
  communicator_.all_gather(
      stream, flat.range(gather.offset, gather.numel),
      {.purpose = purpose, .bucket = gather.bucket, .description = description},
      {.begin = gather.part_begin, .numel = gather.part_numel});
}

void PartitionedOptimizer::gather_parameters() {
  if (!partitioned_) {
    return;
  }
  if (!overlap_comm_) {
    for (const Gather& next : gathers_) {
      const ScopedSpan span = context_.span(SpanKind::kCommExposed, "all_gather", next.bucket);
      gather(context_.compute(), next, flat_parameters_, Purpose::kParameter);
    }
    return;
  }
  Stream& stream = context_.communication();
  stream.wait(context_.compute().record());
  for (const Gather& next : gathers_) {
    gather(stream, next, flat_parameters_, Purpose::kParameter);
    const Event gathered = stream.record();
    for (const int parameter : next.parameters) {
      parameters_[parameter]->set_ready(gathered);
    }
  }
}

void PartitionedOptimizer::repartition(const StagePlan& plan) {
  const bool partitioned = plan.partitions.optimizer_state;
  for (Tensor& state : states_) {
    repartition(state, Category::kOptimizerState, partitioned);
  }
  if (master_.defined()) {
    repartition(master_, Category::kMasterWeights, partitioned);
  }
  partitioned_ = partitioned;
  updated_segments_ = partitioned ? partition_segments_ : layout_.segments();
}

void PartitionedOptimizer::repartition(Tensor& tensor, Category category, bool partitioned) {
  if (tensor.numel() == (partitioned ? layout_.partition_numel() : layout_.flat_numel())) {
    return;  // there already; with one rank, a partition is everything
  }
  const Tensor target = allocate(category, partitioned);
  for (const Segment& segment : partition_segments_) {
    const Tensor flat = (partitioned ? tensor : target).range(segment.flat_offset, segment.numel);
    const Tensor part =
        (partitioned ? target : tensor).range(segment.partition_offset, segment.numel);
    context_.backend().copy(context_.compute(), partitioned ? flat : part,
                            partitioned ? part : flat);
  }
  if (!partitioned) {
    for (const Gather& next : gathers_) {
      gather(context_.compute(), next, target, Purpose::kState);
    }
  }
  tensor = target;
}

void PartitionedOptimizer::copy_state_from(const PartitionedOptimizer& other) {
  for (const Segment& segment : updated_segments_) {
    const auto same = std::ranges::find(other.parameters_, parameters_[segment.parameter]);
    if (same == other.parameters_.end()) {
      continue;
    }
    const ParameterRange& range = other.layout_.ranges()[same - other.parameters_.begin()];
    const auto copy = [&](const Tensor& from, const Tensor& to) {
      context_.backend().copy(context_.compute(), from.range(range.offset, range.numel),
                              to.range(segment.flat_offset, segment.numel));
    };
    for (size_t i = 0; i < states_.size(); ++i) {
      copy(other.states_[i], states_[i]);
    }
    if (master_.defined()) {
      copy(other.master_, master_);
    }
  }
}

}  // namespace zerolab::zero
