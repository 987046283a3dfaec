#include "zero/gradient_buckets.h"

#include <algorithm>
#include <utility>

#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::zero {

GradientBuckets::GradientBuckets(RankContext& context, const Layout& layout,
                                 const EngineOptions& options,
                                 const std::vector<Parameter*>& parameters,
                                 const GradientHome& home, GradientReducer& reducer)
    : context_(context),
      layout_(layout),
      options_(options),
      kind_(options.gradient_memory()),
      parameters_(parameters),
      home_(home),
      reducer_(reducer),
      buckets_(layout.buckets().size()),
      sources_(parameters_.size()),
      contributed_(parameters_.size()),
      completed_(parameters_.size()) {
  for (size_t index = 0; index < parameters_.size(); ++index) {
    index_of_[parameters_[index]] = static_cast<int>(index);
    parameters_[index]->set_sink(this);
  }
  if (kind_ == GradientMemory::kView) {
    for (int bucket = 0; bucket < static_cast<int>(buckets_.size()); ++bucket) {
      buckets_[bucket].memory = home.bucket(bucket);
      zero_padding(bucket);
    }
  }
}

GradientBuckets::~GradientBuckets() {
  for (Parameter* parameter : parameters_) {
    parameter->set_sink(nullptr);
  }
}

void GradientBuckets::begin_micro_batch(int index, int count) {
  micro_batch_ = index;
  last_micro_batch_ = index == count - 1;
  final_backward_ = false;
  next_bucket_ = 0;
  std::fill(completed_.begin(), completed_.end(), 0);
  if (index == 0 || options_.reduces_each_micro_batch()) {
    std::fill(contributed_.begin(), contributed_.end(), 0);
  }
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    buckets_[bucket].incomplete = static_cast<int>(layout_.buckets()[bucket].parameters.size());
  }
}

autograd::Destination GradientBuckets::open(Parameter& parameter) {
  const int index = index_of_.at(&parameter);
  require(!completed_[index], "zero",
          "the gradient of {} arrived after it was reduced; declare only the micro-batch's last "
          "backward final",
          parameter.name());
  const bool accumulate = contributed_[index] != 0;
  contributed_[index] = 1;
  return {memory_of(index).view(parameter.shape()), accumulate};
}

Tensor GradientBuckets::memory_of(int parameter) {
  const ParameterRange& range = layout_.ranges()[parameter];
  if (kind_ != GradientMemory::kPacked) {
    const State& bucket = buckets_[range.bucket];
    if (!bucket.memory.defined()) {
      allocate(range.bucket, parameter);
    }
    return bucket.memory.range(range.offset - layout_.buckets()[range.bucket].offset, range.numel);
  }
  if (!sources_[parameter].defined()) {
    const CategoryScope scope(context_, Category::kGradients);
    sources_[parameter] =
        options_.reduces_each_micro_batch()
            ? Tensor::empty(context_, Shape{range.numel}, options_.gradient_type())
            : home_.at({parameter, range.offset, range.offset, range.numel});
  }
  return sources_[parameter];
}

void GradientBuckets::ready(Parameter& parameter) {
  if (final_backward_ && reduces_now()) {
    complete(index_of_.at(&parameter));
  }
}

void GradientBuckets::end_micro_batch() {
  if (!reduces_now()) {
    return;
  }
  Backend& backend = context_.backend();
  for (const Bucket& bucket : layout_.buckets()) {
    for (const int parameter : bucket.parameters) {
      if (completed_[parameter]) {
        continue;
      }
      if (!contributed_[parameter]) {
        backend.fill(context_.compute(), open(*parameters_[parameter]).tensor, 0.0);
      }
      complete(parameter);
    }
  }
}

bool GradientBuckets::is_ordinary(int bucket) const {
  return kind_ == GradientMemory::kPacked ||
         !layout_.parameters()[layout_.buckets()[bucket].parameters.front()].own_bucket;
}

void GradientBuckets::complete(int parameter) {
  completed_[parameter] = 1;
  --buckets_[layout_.ranges()[parameter].bucket].incomplete;
  while (next_bucket_ < static_cast<int>(buckets_.size()) &&
         buckets_[next_bucket_].incomplete == 0) {
    const int bucket = next_bucket_++;
    if (kind_ == GradientMemory::kView) {
      reducer_.reduce(bucket, buckets_[bucket].memory, false);
      continue;
    }
    if (kind_ == GradientMemory::kPacked) {
      pack(bucket);
    }
    open_buffers_ -= is_ordinary(bucket) ? 1 : 0;
    reducer_.reduce(bucket, std::exchange(buckets_[bucket].memory, Tensor()),
                    options_.reduces_each_micro_batch() && micro_batch_ > 0);
  }
}

void GradientBuckets::allocate(int bucket, int parameter) {
  if (is_ordinary(bucket)) {
    reducer_.retire(std::max(0, kOrdinaryBuffers - 1 - open_buffers_));
    // Waiting for an open bucket could wait for ever: it may be completed only after this one.
    if (open_buffers_ >= kOrdinaryBuffers) {
      ++excess_buffers_;
      excess_parameter_ = parameter;
    }
    ++open_buffers_;
  }
  const CategoryScope scope(context_, Category::kGradientBuckets);
  buckets_[bucket].memory = Tensor::empty(context_, Shape{layout_.buckets()[bucket].numel},
                                          options_.communication_type());
  context_.ledger().sample("opened", bucket);
  zero_padding(bucket);
}

void GradientBuckets::pack(int bucket) {
  const Bucket& place = layout_.buckets()[bucket];
  allocate(bucket, place.parameters.front());
  for (const int parameter : place.parameters) {
    const ParameterRange& range = layout_.ranges()[parameter];
    context_.backend().copy(
        context_.compute(), sources_[parameter],
        buckets_[bucket].memory.range(range.offset - place.offset, range.numel));
    sources_[parameter] = Tensor();
  }
}

void GradientBuckets::zero_padding(int bucket) {
  const Bucket& place = layout_.buckets()[bucket];
  for (size_t i = 0; i < place.parameters.size(); ++i) {
    const ParameterRange& range = layout_.ranges()[place.parameters[i]];
    const int64_t begin = range.offset - place.offset + range.numel;
    const int64_t end = i + 1 == place.parameters.size()
                            ? place.numel
                            : layout_.ranges()[place.parameters[i + 1]].offset - place.offset;
    context_.backend().fill(context_.compute(), buckets_[bucket].memory.range(begin, end - begin),
                            0.0);
  }
}

}  // namespace zerolab::zero
