#include "zero/gradient_storage.h"

namespace zerolab::zero {

GradientStorage::GradientStorage(RankContext& context, const Layout& layout, const StagePlan& plan)
    : layout_(layout), partitioned_(plan.partitions.gradients) {
  const CategoryScope scope(context, Category::kGradients);
  const DType dtype = plan.accumulation_dtype;
  if (partitioned_ || plan.contiguous_gradients) {
    const int64_t numel = partitioned_ ? layout.partition_numel() : layout.flat_numel();
    memory_ = Tensor::empty(context, Shape{numel}, dtype);
    return;
  }
  for (const ParameterRange& range : layout.ranges()) {
    separate_.push_back(Tensor::empty(context, Shape{range.numel}, dtype));
  }
}

Tensor GradientStorage::at(const Segment& segment) const {
  if (memory_.defined()) {
    return memory_.range(partitioned_ ? segment.partition_offset : segment.flat_offset,
                         segment.numel);
  }
  const int64_t begin = segment.flat_offset - layout_.ranges()[segment.parameter].offset;
  return separate_[segment.parameter].range(begin, segment.numel);
}

Tensor GradientStorage::bucket(int index) const {
  const Bucket& bucket = layout_.buckets()[index];
  return memory_.range(bucket.offset, bucket.numel);
}

}  // namespace zerolab::zero
