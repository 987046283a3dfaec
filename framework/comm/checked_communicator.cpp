#include "framework/comm/checked_communicator.h"

#include "framework/core/error.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {
namespace {

Collective collective(CollectiveOp op, const Tensor& buffer, const CommTag& tag) {
  require(buffer.defined(), "comm", "{} of an undefined tensor", name_of(op));
  return {
      .op = op, .tag = tag, .dtype = buffer.dtype(), .numel = buffer.numel(), .data = buffer.raw()};
}

Collective reduction(CollectiveOp op, const Tensor& buffer, double divisor, const CommTag& tag) {
  Collective call = collective(op, buffer, tag);
  call.divisor = divisor;
  require(call.dtype == DType::kFloat32 || size_of(call.dtype) == 2, "comm",
          "{} cannot add these elements; got {}, expected fp32, bf16 or fp16", name_of(call),
          name_of(call.dtype));
  require(divisor > 0, "comm", "{} needs a positive divisor; got {}", name_of(call), divisor);
  return call;
}

}  // namespace

void CheckedCommunicator::check_slices(const Collective& call) const {
  require(call.numel % size_ == 0, "comm",
          "{} needs {} equal slices, one a rank; got {} elements; pad the buffer", name_of(call),
          size_, call.numel);
}

void CheckedCommunicator::check_root(const Collective& call) const {
  require(call.root >= 0 && call.root < size_, "comm", "{}: no such root; got {}, expected 0 to {}",
          name_of(call), call.root, size_ - 1);
}

void CheckedCommunicator::all_reduce(Stream& stream, const Tensor& buffer, double divisor,
                                     const CommTag& tag) {
  run(stream, reduction(CollectiveOp::kAllReduce, buffer, divisor, tag));
}

void CheckedCommunicator::reduce_scatter(Stream& stream, const Tensor& buffer, double divisor,
                                         const CommTag& tag) {
  const Collective call = reduction(CollectiveOp::kReduceScatter, buffer, divisor, tag);
  check_slices(call);
  run(stream, call);
}

void CheckedCommunicator::all_gather(Stream& stream, const Tensor& buffer, const CommTag& tag,
                                     const SlicePart& part) {
  Collective call = collective(CollectiveOp::kAllGather, buffer, tag);
  check_slices(call);
  const int64_t slice = call.numel / size_;
  const int64_t numel = part.numel == -1 ? slice - part.begin : part.numel;
  require(part.begin >= 0 && numel >= 0 && numel <= slice - part.begin, "comm",
          "{}: no such part of a slice; got elements [{}, {}), expected a range within {} elements",
          name_of(call), part.begin, part.begin + numel, slice);
  if (numel < slice) {
    call.part = {part.begin, numel};
  }
  run(stream, call);
}

void CheckedCommunicator::reduce(Stream& stream, const Tensor& buffer, int root, double divisor,
                                 const CommTag& tag) {
  Collective call = reduction(CollectiveOp::kReduce, buffer, divisor, tag);
  call.root = root;
  check_root(call);
  run(stream, call);
}

void CheckedCommunicator::broadcast(Stream& stream, const Tensor& buffer, int root,
                                    const CommTag& tag) {
  Collective call = collective(CollectiveOp::kBroadcast, buffer, tag);
  call.root = root;
  check_root(call);
  run(stream, call);
}

Tensor memory_of_communicator(RankContext& context, int64_t bytes) {
  const CategoryScope scope(context, Category::kCommunication);
  return Tensor::empty(context, Shape{bytes / size_of(DType::kInt32)}, DType::kInt32);
}

void record(const Collective& call, const CollectiveTimes& times, CommunicationLedger& ledger,
            Recorder& recorder) {
  const Span wait = {.kind = SpanKind::kCommWait,
                     .name = std::string(name_of(call.op)),
                     .bucket = call.tag.bucket,
                     .purpose = name_of(call.tag.purpose),
                     .begin = times.begin,
                     .end = times.all_arrived};
  Span transfer = wait;
  transfer.kind = SpanKind::kCommTransfer;
  transfer.bytes = times.sent;
  transfer.begin = times.all_arrived;
  transfer.end = times.end;
  recorder.add({wait, transfer});
  ledger.add(call.op, call.tag,
             {.calls = 1,
              .bytes_sent = times.sent,
              .bytes_received = times.received,
              .wait_ms = wait.milliseconds(),
              .transfer_ms = transfer.milliseconds()});
}

}  // namespace zerolab
