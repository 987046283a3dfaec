#include "zero/bucket_memory.h"

#include <algorithm>
#include <utility>

#include "framework/tensor/backend.h"

namespace zerolab::zero {

BucketMemory::BucketMemory(RankContext& context, const Layout& layout, const StagePlan& plan,
                           const GradientStorage& storage, GradientReducer& reducer)
    : context_(context),
      layout_(layout),
      plan_(plan),
      storage_(storage),
      reducer_(reducer),
      buckets_(layout.buckets().size()),
      sources_(layout.parameters().size()) {
  for (int bucket = 0;
       plan.gradient_memory == GradientMemory::kView && bucket < std::ssize(buckets_); ++bucket) {
    buckets_[bucket] = storage.bucket(bucket);
    zero_padding(bucket);
  }
}

Tensor BucketMemory::gradient(int parameter) {
  const ParameterRange& range = layout_.ranges()[parameter];
  if (plan_.gradient_memory != GradientMemory::kPacked) {
    if (!buckets_[range.bucket].defined()) {
      allocate(range.bucket, parameter);
    }
    return within_bucket(range);
  }
  if (!sources_[parameter].defined()) {
    const CategoryScope scope(context_, Category::kGradients);
    sources_[parameter] = plan_.reduces_each_micro_batch
                              ? Tensor::empty(context_, Shape{range.numel}, plan_.gradient_dtype)
                              : storage_.at({parameter, range.offset, range.offset, range.numel});
  }
  return sources_[parameter];
}

Tensor BucketMemory::take(int bucket) {
  if (plan_.gradient_memory == GradientMemory::kView) {
    return buckets_[bucket];
  }
  if (plan_.gradient_memory == GradientMemory::kPacked) {
    pack(bucket);
  }
  open_buffers_ -= is_ordinary(bucket) ? 1 : 0;
  return std::exchange(buckets_[bucket], Tensor());
}

bool BucketMemory::is_ordinary(int bucket) const {
  return plan_.gradient_memory == GradientMemory::kPacked ||
         !layout_.parameters()[layout_.buckets()[bucket].parameters.front()].own_bucket;
}

void BucketMemory::allocate(int bucket, int parameter) {
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
  buckets_[bucket] =
      Tensor::empty(context_, Shape{layout_.buckets()[bucket].numel}, plan_.communication_dtype);
  context_.ledger().sample("opened", bucket);
  zero_padding(bucket);
}

void BucketMemory::pack(int bucket) {
  const std::vector<int>& parameters = layout_.buckets()[bucket].parameters;
  allocate(bucket, parameters.front());
  for (const int parameter : parameters) {
    context_.backend().copy(context_.compute(), sources_[parameter],
                            within_bucket(layout_.ranges()[parameter]));
    sources_[parameter] = Tensor();
  }
}

void BucketMemory::zero_padding(int bucket) {
  const Bucket& place = layout_.buckets()[bucket];
  for (size_t i = 0; i < place.parameters.size(); ++i) {
    const ParameterRange& range = layout_.ranges()[place.parameters[i]];
    const int64_t begin = range.offset - place.offset + range.numel;
    const int64_t end = i + 1 == place.parameters.size()
                            ? place.numel
                            : layout_.ranges()[place.parameters[i + 1]].offset - place.offset;
    context_.backend().fill(context_.compute(), buckets_[bucket].range(begin, end - begin), 0.0);
  }
}

Tensor BucketMemory::within_bucket(const ParameterRange& range) const {
  return buckets_[range.bucket].range(range.offset - layout_.buckets()[range.bucket].offset,
                                      range.numel);
}

}  // namespace zerolab::zero
