#include "zero/gradient_reducer.h"

#include "framework/tensor/backend.h"

namespace zerolab::zero {

GradientReducer::GradientReducer(RankContext& context, Communicator& communicator,
                                 const Layout& layout, const StagePlan& plan,
                                 const GradientStorage& storage, const Tensor& local_statistics)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      plan_(plan),
      storage_(storage),
      local_statistics_(local_statistics),
      kept_(layout.buckets().size()) {
  const bool partitioned = plan.partitions.optimizer_state;
  for (const Segment& segment :
       partitioned ? layout.segments(communicator.rank()) : layout.segments()) {
    kept_[layout.ranges()[segment.parameter].bucket].push_back(segment);
  }
}

void GradientReducer::reduce(int index, Tensor memory, bool accumulate) {
  context_.ledger().sample("filled", index);
  if (local_statistics_.defined()) {
    context_.backend().gradient_statistics(context_.compute(), memory, plan_.alignment,
                                           layout_.buckets()[index].offset, local_statistics_);
  }
  context_.mark(SpanKind::kRelease, "release", index);
  if (!plan_.overlap_comm) {
    {
      const ScopedSpan span = context_.span(SpanKind::kCommExposed, "reduce", index);
      run_reduction(context_.compute(), index, memory, accumulate);
    }
    memory = Tensor();
    context_.ledger().sample("reduced", index);
    return;
  }
  Stream& stream = context_.communication();
  stream.wait(context_.compute().record());
  run_reduction(stream, index, memory, accumulate);
  in_flight_.push_back({index, std::move(memory), stream.record()});
}

void GradientReducer::run_reduction(Stream& stream, int index, const Tensor& memory,
                                    bool accumulate) {
  Backend& backend = context_.backend();
  const Bucket& bucket = layout_.buckets()[index];
  const CommTag tag = {
      .purpose = Purpose::kGradient, .bucket = index, .description = bucket.description};
  const double divisor = plan_.divisor_after_sum;
  if (plan_.reduction == Reduction::kReduceScatter) {
    communicator_.reduce_scatter(stream, memory, divisor, tag);
  } else if (plan_.reduction == Reduction::kReduceToOwner) {
    for (const Slice& slice : bucket.slices.all()) {
      const Tensor part = memory.range(slice.bucket_offset, slice.numel);
      communicator_.reduce(stream, part, slice.owner, divisor, tag);
    }
  } else {
    if (plan_.divisor_before_sum != 1.0) {
      backend.scale(stream, memory, 1.0 / plan_.divisor_before_sum, memory, false);
    }
    communicator_.all_reduce(stream, memory, divisor, tag);
  }
  if (plan_.gradient_memory == GradientMemory::kView) {
    return;  // reduced where it stays
  }
  for (const Segment& segment : kept_[index]) {
    const Tensor source = memory.range(segment.flat_offset - bucket.offset, segment.numel);
    if (accumulate) {
      backend.accumulate(stream, source, storage_.at(segment));
    } else {
      backend.copy(stream, source, storage_.at(segment));
    }
  }
}

void GradientReducer::retire(int keep) {
  while (static_cast<int>(in_flight_.size()) > keep) {
    const int bucket = in_flight_.front().bucket;
    context_.wait_for_communication(in_flight_.front().done, "reduce", bucket);
    in_flight_.pop_front();
    context_.ledger().sample("reduced", bucket);
  }
}

}  // namespace zerolab::zero
