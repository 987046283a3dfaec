#include "zero/gradient_reducer.h"

#include "framework/tensor/backend.h"

namespace zerolab::zero {

GradientReducer::GradientReducer(RankContext& context, Communicator& communicator,
                                 const Layout& layout, const EngineOptions& options,
                                 const GradientHome& home, const Tensor& local_statistics)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      options_(options),
      home_(home),
      local_statistics_(local_statistics),
      kept_(layout.buckets().size()) {
  const bool partitioned = partitioning_of(options.stage).optimizer_state;
  for (const Segment& segment :
       partitioned ? layout.segments(communicator.rank()) : layout.segments()) {
    kept_[layout.ranges()[segment.parameter].bucket].push_back(segment);
  }
}

void GradientReducer::reduce(int index, Tensor memory, bool add_to_home) {
  context_.ledger().sample("filled", index);
  if (local_statistics_.defined()) {
    context_.backend().gradient_statistics(context_.compute(), memory, options_.alignment,
                                           layout_.buckets()[index].offset, local_statistics_);
  }
  context_.mark(SpanKind::kRelease, "release", index);
  if (!options_.overlap_comm) {
    {
      const ScopedSpan span = context_.span(SpanKind::kCommExposed, "reduce", index);
      run(context_.compute(), index, memory, add_to_home);
    }
    memory = Tensor();
    context_.ledger().sample("reduced", index);
    return;
  }
  Stream& stream = context_.communication();
  stream.wait(context_.compute().record());
  run(stream, index, memory, add_to_home);
  in_flight_.push_back({index, std::move(memory), stream.record()});
}

void GradientReducer::run(Stream& stream, int index, const Tensor& memory, bool add_to_home) {
  Backend& backend = context_.backend();
  const Bucket& bucket = layout_.buckets()[index];
  const CommTag tag = {.purpose = Purpose::kGradient, .bucket = index, .about = bucket.about};
  const double size = communicator_.size();
  if (options_.reduction() == Reduction::kReduceScatter) {
    communicator_.reduce_scatter(stream, memory, size, tag);
  } else if (options_.reduction() == Reduction::kReduceToOwner) {
    for (const Slice& slice : bucket.slices.all()) {
      const Tensor part = memory.range(slice.bucket_offset, slice.numel);
      communicator_.reduce(stream, part, slice.owner, size, tag);
    }
  } else {
    const double before = options_.prescale_gradients ? size : options_.gradient_predivide_factor;
    if (before != 1.0) {
      backend.scale(stream, memory, 1.0 / before, memory, false);
    }
    communicator_.all_reduce(stream, memory, size / before, tag);
  }
  if (options_.gradient_memory() == GradientMemory::kView) {
    return;  // reduced where it stays
  }
  for (const Segment& segment : kept_[index]) {
    const Tensor source = memory.range(segment.flat_offset - bucket.offset, segment.numel);
    if (add_to_home) {
      backend.accumulate(stream, source, home_.at(segment));
    } else {
      backend.copy(stream, source, home_.at(segment));
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
