#include "zero/partitioned_optimizer.h"

#include <algorithm>
#include <limits>

#include "framework/tensor/backend.h"

namespace zerolab::zero {

PartitionedOptimizer::PartitionedOptimizer(RankContext& context, Communicator& communicator,
                                           const Layout& layout, const EngineOptions& options,
                                           const optim::Optimizer& optimizer,
                                           const std::vector<Parameter*>& handles,
                                           const Tensor& parameters)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      options_(options),
      optimizer_(optimizer),
      handles_(handles),
      parameters_(parameters),
      share_(layout.segments(communicator.rank())),
      gathers_(layout.gathers(options.allgather_bucket_size)),
      partitioned_(partitioning_of(options.stage).optimizer_state),
      owned_(partitioned_ ? share_ : layout.segments()) {
  for (size_t i = 0; i < optimizer.state_names().size(); ++i) {
    states_.push_back(allocate(Category::kOptimizerState));
  }
  if (options.has_master_weights()) {
    master_ = allocate(Category::kMasterWeights);
    for (const Segment& segment : owned_) {
      context.backend().copy(context.compute(),
                             parameters_.range(segment.flat_offset, segment.numel),
                             weights(segment));
    }
  }
}

Tensor PartitionedOptimizer::allocate(Category category) const {
  const CategoryScope scope(context_, category);
  const int64_t numel = partitioned_ ? layout_.partition_numel() : layout_.flat_numel();
  return Tensor::zeros(context_, Shape{numel}, DType::kFloat32);
}

void PartitionedOptimizer::gradient_statistics(const GradientHome& gradients,
                                               const Tensor& statistics) {
  for (const Segment& segment : share_) {
    context_.backend().gradient_statistics(context_.compute(), gradients.at(segment),
                                           options_.alignment, segment.flat_offset, statistics);
  }
}

void PartitionedOptimizer::update(const GradientHome& gradients,
                                  const optim::UpdateArguments& arguments) {
  for (const Segment& segment : owned_) {
    const optim::ParameterGroup group = optimizer_.group_of(*handles_[segment.parameter]);
    optim::UpdateArguments own = arguments;
    own.learning_rate *= group.learning_rate_factor;
    own.weight_decay_factor = group.weight_decay_factor;
    optimizer_.update(context_.backend(), context_.compute(), own, gradients.at(segment),
                      weights(segment), states(segment));
    round_weights(segment);
  }
}

Tensor PartitionedOptimizer::weights(const Segment& segment) const {
  return master_.defined() ? master_.range(offset_of(segment), segment.numel)
                           : parameters_.range(segment.flat_offset, segment.numel);
}

std::vector<Tensor> PartitionedOptimizer::states(const Segment& segment) const {
  std::vector<Tensor> parts;
  for (const Tensor& state : states_) {
    parts.push_back(state.range(offset_of(segment), segment.numel));
  }
  return parts;
}

void PartitionedOptimizer::round_weights(const Segment& segment) {
  if (master_.defined()) {
    context_.backend().copy(context_.compute(), weights(segment),
                            parameters_.range(segment.flat_offset, segment.numel));
  }
}

void PartitionedOptimizer::publish() {
  for (const Segment& segment : owned_) {
    round_weights(segment);
  }
  gather_parameters();
}

void PartitionedOptimizer::gather(Stream& stream, const Gather& gather, const Tensor& flat,
                                  Purpose purpose) {
  const auto about = gather.bucket < 0 ? nullptr : layout_.buckets()[gather.bucket].about;
  communicator_.all_gather(stream, flat.range(gather.offset, gather.numel),
                           {.purpose = purpose, .bucket = gather.bucket, .about = about},
                           {.begin = gather.part_begin, .numel = gather.part_numel});
}

void PartitionedOptimizer::gather_parameters() {
  if (!partitioned_) {
    return;
  }
  for (const Bucket& bucket : layout_.buckets()) {
    for (const Slice& slice : bucket.slices.all()) {
      if (options_.poison && slice.owner != communicator_.rank()) {
        fill_with_nan(parameters_.range(bucket.offset + slice.bucket_offset, slice.numel));
      }
    }
  }
  if (!options_.overlap_comm) {
    for (const Gather& next : gathers_) {
      const ScopedSpan span = context_.span(SpanKind::kCommExposed, "all_gather", next.bucket);
      gather(context_.compute(), next, parameters_, Purpose::kParameter);
    }
    return;
  }
  Stream& stream = context_.communication();
  stream.wait(context_.compute().record());
  for (const Gather& next : gathers_) {
    gather(stream, next, parameters_, Purpose::kParameter);
    const Event gathered = stream.record();
    for (const int parameter : next.parameters) {
      handles_[parameter]->set_ready(gathered);
    }
  }
}

void PartitionedOptimizer::poison_gradients(const GradientHome& gradients) {
  for (const Segment& segment :
       partitioning_of(options_.stage).gradients ? share_ : layout_.segments()) {
    fill_with_nan(gradients.at(segment));
  }
}

void PartitionedOptimizer::fill_with_nan(const Tensor& tensor) {
  context_.backend().fill(context_.compute(), tensor, std::numeric_limits<double>::quiet_NaN());
}

void PartitionedOptimizer::rehome() {
  if (partitioned_ == partitioning_of(options_.stage).optimizer_state) {
    return;
  }
  partitioned_ = !partitioned_;
  for (Tensor& state : states_) {
    rehome(state, Category::kOptimizerState);
  }
  if (master_.defined()) {
    rehome(master_, Category::kMasterWeights);
  }
  owned_ = partitioned_ ? share_ : layout_.segments();
}

void PartitionedOptimizer::rehome(Tensor& tensor, Category category) {
  const Tensor home = allocate(category);
  for (const Segment& segment : share_) {
    const Tensor flat = (partitioned_ ? tensor : home).range(segment.flat_offset, segment.numel);
    const Tensor part =
        (partitioned_ ? home : tensor).range(segment.partition_offset, segment.numel);
    context_.backend().copy(context_.compute(), partitioned_ ? flat : part,
                            partitioned_ ? part : flat);
  }
  tensor = home;
  if (!partitioned_) {
    for (const Gather& next : gathers_) {
      gather(context_.compute(), next, tensor, Purpose::kState);
    }
  }
}

void PartitionedOptimizer::adopt(const PartitionedOptimizer& other) {
  for (const Segment& segment : owned_) {
    const auto same =
        std::find(other.handles_.begin(), other.handles_.end(), handles_[segment.parameter]);
    if (same == other.handles_.end()) {
      continue;
    }
    const ParameterRange& range = other.layout_.ranges()[same - other.handles_.begin()];
    const auto take = [&](const Tensor& from, const Tensor& to) {
      context_.backend().copy(context_.compute(), from.range(range.offset, range.numel),
                              to.range(segment.flat_offset, segment.numel));
    };
    for (size_t i = 0; i < states_.size(); ++i) {
      take(other.states_[i], states_[i]);
    }
    if (master_.defined()) {
      take(other.master_, master_);
    }
  }
}

}  // namespace zerolab::zero
