#include "zero/gradient_reducer.h"

#include "framework/core/backend.h"

namespace zerolab::zero {

GradientReducer::GradientReducer(RankContext& context, Communicator& communicator,
                                 const Layout& layout, const EngineOptions& options,
                                 const Tensor& home)
    : context_(context),
      communicator_(communicator),
      layout_(layout),
      options_(options),
      home_(home) {}

void GradientReducer::reduce(int index, Tensor memory, bool add_to_home) {
  const Bucket& bucket = layout_.buckets()[index];
  const CommTag tag = {.purpose = Purpose::kGradient, .bucket = index};
  const double divisor = communicator_.size();
  const auto run = [&](Stream& stream) {
    if (options_.uses_reduce_scatter()) {
      communicator_.reduce_scatter(stream, memory, divisor, tag);
    } else {
      communicator_.all_reduce(stream, memory, divisor, tag);
    }
    deliver(stream, bucket, memory, add_to_home);
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

void GradientReducer::deliver(Stream& stream, const Bucket& bucket, const Tensor& memory,
                              bool add_to_home) {
  if (!options_.buffered()) {
    return;  // reduced where it stays
  }
  Backend& backend = context_.backend();
  const auto bring = [&](int64_t bucket_offset, int64_t home_offset, int64_t numel) {
    const Tensor source = memory.range(bucket_offset, numel);
    const Tensor home = home_.range(home_offset, numel);
    if (add_to_home) {
      backend.accumulate(stream, source, home);
    } else {
      backend.copy(stream, source, home);
    }
  };
  const Partitioning partitioned = partitioning_of(options_.stage);
  if (!partitioned.optimizer_state) {
    bring(0, bucket.offset, bucket.numel);
    return;
  }
  for (const Slice& slice : bucket.slices) {
    if (slice.owner == communicator_.rank()) {
      bring(slice.bucket_offset,
            partitioned.gradients ? slice.partition_offset : bucket.offset + slice.bucket_offset,
            slice.numel);
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
