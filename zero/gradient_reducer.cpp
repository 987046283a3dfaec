#include "zero/gradient_reducer.h"

#include "framework/core/backend.h"
#include "framework/core/exact_sum.h"

namespace zerolab::zero {

GradientReducer::GradientReducer(RankContext& context, Communicator& communicator,
                                 const Layout& layout, const EngineOptions& options,
                                 const GradientHome& home)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      options_(options),
      home_(home),
      kept_(layout.buckets().size()) {
  const bool partitioned = partitioning_of(options.stage).optimizer_state;
  for (const Segment& segment :
       partitioned ? layout.segments(communicator.rank()) : layout.all_segments()) {
    kept_[layout.ranges()[segment.parameter].bucket].push_back(segment);
  }
  if (options.poison) {
    const CategoryScope scope(context, Category::kControl);
    local_statistics_ = Tensor::empty(context, Shape{kStatisticsWords}, DType::kInt64);
    clear_local_statistics();
  }
}

void GradientReducer::clear_local_statistics() {
  Backend& backend = context_.backend();
  backend.fill(context_.compute(), local_statistics_, 0.0);
  const int64_t nothing_found[] = {kAllFinite, kNone};
  backend.copy_from_host(context_.compute(), std::as_bytes(std::span(nothing_found)),
                         local_statistics_.range(kFirstNonFiniteWord, 2));
}

void GradientReducer::reduce(int index, Tensor memory, bool add_to_home) {
  const Bucket& bucket = layout_.buckets()[index];
  const CommTag tag = {.purpose = Purpose::kGradient, .bucket = index, .about = bucket.about};
  if (options_.poison) {
    context_.backend().gradient_statistics(context_.compute(), memory, options_.alignment,
                                           bucket.offset, local_statistics_);
  }
  const auto run = [&](Stream& stream) {
    combine(stream, bucket, memory, tag);
    deliver(stream, index, memory, add_to_home);
  };
  if (!options_.overlap_comm) {
    const ScopedSpan span(context_.recorder(), SpanKind::kCommExposed, "reduce", index);
    run(context_.compute());
    return;
  }
  Stream& stream = context_.communication();
  stream.wait(context_.compute().record());
  run(stream);
  in_flight_.push_back({index, std::move(memory), stream.record()});
}

void GradientReducer::combine(Stream& stream, const Bucket& bucket, const Tensor& memory,
                              const CommTag& tag) {
  const double size = communicator_.size();
  switch (options_.reduction()) {
    case Reduction::kReduceScatter:
      return communicator_.reduce_scatter(stream, memory, size, tag);
    case Reduction::kReduceToOwner:
      for (const Slice& slice : bucket.slices) {
        communicator_.reduce(stream, memory.range(slice.bucket_offset, slice.numel), slice.owner,
                             size, tag);
      }
      return;
    case Reduction::kAllReduce:
      const double before = options_.prescale_gradients ? size : options_.gradient_predivide_factor;
      if (before != 1.0) {
        context_.backend().scale(stream, memory, 1.0 / before, memory, false);
      }
      return communicator_.all_reduce(stream, memory, size / before, tag);
  }
}

void GradientReducer::deliver(Stream& stream, int index, const Tensor& memory, bool add_to_home) {
  if (options_.gradient_memory() == GradientMemory::kView) {
    return;  // reduced where it stays
  }
  Backend& backend = context_.backend();
  for (const Segment& segment : kept_[index]) {
    const Tensor source =
        memory.range(segment.flat_offset - layout_.buckets()[index].offset, segment.numel);
    if (add_to_home) {
      backend.accumulate(stream, source, home_.at(segment));
    } else {
      backend.copy(stream, source, home_.at(segment));
    }
  }
}

void GradientReducer::retire_oldest() {
  const InFlight oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  context_.wait_for_communication(oldest.done, "reduce", oldest.bucket);
}

void GradientReducer::retire_all() {
  while (!in_flight_.empty()) {
    retire_oldest();
  }
}

}  // namespace zerolab::zero
