#include "zero/partitioned_optimizer.h"

#include <limits>

#include "framework/core/backend.h"

namespace zerolab::zero {

PartitionedOptimizer::PartitionedOptimizer(RankContext& context, Communicator& communicator,
                                           const Layout& layout, const EngineOptions& options,
                                           const optim::Optimizer& optimizer,
                                           std::vector<Parameter*> handles,
                                           const Tensor& parameters, const Tensor& gradients)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      options_(options),
      partitioned_(partitioning_of(options.stage)),
      optimizer_(optimizer),
      handles_(std::move(handles)),
      parameters_(parameters),
      gradients_(gradients),
      share_(layout.segments(communicator.rank())),
      owned_(partitioned_.optimizer_state ? share_ : layout.all_segments()) {
  const CategoryScope scope(context, Category::kOptimizerState);
  const int64_t numel =
      partitioned_.optimizer_state ? layout.partition_numel() : layout.flat_numel();
  for (size_t i = 0; i < optimizer.state_names().size(); ++i) {
    states_.push_back(Tensor::zeros(context, Shape{numel}, DType::kFloat32));
  }
}

int64_t PartitionedOptimizer::gradient_offset(const Segment& segment) const {
  return partitioned_.gradients ? segment.partition_offset : segment.flat_offset;
}

int64_t PartitionedOptimizer::state_offset(const Segment& segment) const {
  return partitioned_.optimizer_state ? segment.partition_offset : segment.flat_offset;
}

void PartitionedOptimizer::gradient_statistics(const Tensor& statistics) {
  for (const Segment& segment : share_) {
    context_.backend().gradient_statistics(
        context_.compute(), gradients_.range(gradient_offset(segment), segment.numel),
        options_.alignment, segment.flat_offset, statistics);
  }
}

void PartitionedOptimizer::update(double learning_rate, int64_t step, double gradient_scale) {
  std::vector<Tensor> states(states_.size());
  for (const Segment& segment : owned_) {
    for (size_t i = 0; i < states_.size(); ++i) {
      states[i] = states_[i].range(state_offset(segment), segment.numel);
    }
    optimizer_.update(context_.backend(), context_.compute(),
                      {.learning_rate = learning_rate,
                       .step = step,
                       .gradient_scale = gradient_scale,
                       .decay = handles_[segment.parameter]->shape().rank() >= 2},
                      gradients_.range(gradient_offset(segment), segment.numel),
                      parameters_.range(segment.flat_offset, segment.numel), states);
  }
}

void PartitionedOptimizer::gather_parameters() {
  if (!partitioned_.optimizer_state) {
    return;
  }
  if (options_.poison) {
    for (int rank = 0; rank < communicator_.size(); ++rank) {
      for (const Segment& segment :
           rank == communicator_.rank() ? std::vector<Segment>() : layout_.segments(rank)) {
        context_.backend().fill(context_.compute(),
                                parameters_.range(segment.flat_offset, segment.numel),
                                std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  Stream& stream = options_.overlap_comm ? context_.communication() : context_.compute();
  if (options_.overlap_comm) {
    stream.wait(context_.compute().record());
  }
  for (int index = static_cast<int>(layout_.buckets().size()) - 1; index >= 0; --index) {
    const Bucket& bucket = layout_.buckets()[index];
    const Tensor memory = parameters_.range(bucket.offset, bucket.numel);
    const CommTag tag = {.purpose = Purpose::kParameter, .bucket = index};
    if (!options_.overlap_comm) {
      const ScopedSpan span(context_.recorder(), SpanKind::kCommExposed, "all_gather", index);
      communicator_.all_gather(stream, memory, tag);
      continue;
    }
    communicator_.all_gather(stream, memory, tag);
    const Event gathered = stream.record();
    for (const int parameter : bucket.parameters) {
      handles_[parameter]->set_ready(gathered);
    }
  }
}

void PartitionedOptimizer::poison_gradients() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Segment& segment : partitioned_.gradients ? share_ : layout_.all_segments()) {
    context_.backend().fill(context_.compute(),
                            gradients_.range(gradient_offset(segment), segment.numel), nan);
  }
}

}  // namespace zerolab::zero
