#include "framework/comm/nccl_communicator.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/cuda/check.h"
#include "framework/cuda/collectives.h"
#include "framework/tensor/backend.h"

namespace zerolab {
namespace {

/// Elements of a buffer.
struct Range {
  int64_t begin = 0;
  int64_t numel = 0;
};

/// What each rank owns of the buffer: its sum is made there, or it is what the others get from
/// there.
std::vector<Range> owned_elements(const Collective& call, int size) {
  const int64_t slice = call.numel / size;
  std::vector<Range> owned(size);
  for (int rank = 0; rank < size; ++rank) {
    switch (call.op) {
      case CollectiveOp::kAllReduce: {
        const int64_t begin = chunk_begin(call.numel, rank, size);
        owned[rank] = {begin, chunk_begin(call.numel, rank + 1, size) - begin};
        break;
      }
      case CollectiveOp::kReduceScatter:
      case CollectiveOp::kAllGather:
        owned[rank] = {rank * slice + call.part.begin, exchanged_numel(call, size) / size};
        break;
      case CollectiveOp::kReduce:
      case CollectiveOp::kBroadcast:
        owned[rank] = {0, rank == call.root ? call.numel : 0};
        break;
      case CollectiveOp::kBarrier:
        break;
    }
  }
  return owned;
}

/// What lies within [offset, offset + numel) of the range's own elements.
Range piece_of(const Range& range, int64_t offset, int64_t numel) {
  return {range.begin + offset, std::clamp<int64_t>(range.numel - offset, 0, numel)};
}

std::span<std::byte> bytes_of(const Collective& call, const Range& range) {
  const int64_t element = size_of(call.dtype);
  return {call.data + range.begin * element, static_cast<size_t>(range.numel * element)};
}

}  // namespace

NcclCommunicator::NcclCommunicator(NcclRanks& ranks, RankContext& context,
                                   const NcclOptions& options)
    : CheckedCommunicator(context.rank(), ranks.size()),
      ranks_(ranks),
      context_(context),
      staged_bytes_(staging_bytes_for_a_peer(options, ranks.size())),
      staging_(memory_of_communicator(context, staged_bytes_ * (ranks.size() - 1))) {
  require(context.backend().name() == "cuda", "comm",
          "NCCL joins ranks of the cuda backend; got one of {}", context.backend().name());
  ranks.join(rank());
  last_verb_ = context.compute().record();  // whose work may still use what became staging memory
}

NcclCommunicator::~NcclCommunicator() {
  try {
    context_.compute().wait(last_verb_);  // in whose order the staging memory is freed
  } catch (const Error&) {
    // The device has broken down, which has been told.
  }
}

void NcclCommunicator::barrier() {
  run(context_.compute(), Collective());
  last_verb_.synchronize();
}

void NcclCommunicator::abort(std::string_view reason) { ranks_.abort(rank(), reason); }

void NcclCommunicator::run(Stream& any, const Collective& call) {
  auto& stream = static_cast<cuda::CudaStream&>(any);
  enter_ended();
  stream.wait(last_verb_);
  stream.set_wait_check([&ranks = ranks_, rank = rank()] { ranks.check(rank); });
  ranks_.begin(rank(), call, stream.time());
  put(stream, call);
  ranks_.end(rank(), stream.time());
  last_verb_ = stream.record();
}

void NcclCommunicator::enter_ended() {
  for (const NcclRanks::Verb& verb : ranks_.take_ended(rank())) {
    const FormulaBytes bytes = formula_bytes(verb.call, rank(), size());
    const Clock::time_point begin = verb.begin.get().value();
    record(verb.call,
           {.sent = bytes.sent,
            .received = bytes.received,
            .begin = begin,
            .all_arrived = begin,
            .end = verb.end->get().value()},
           *shared_ledger(), context_.recorder());
  }
}

void NcclCommunicator::put(cuda::CudaStream& stream, const Collective& call) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
      sum(stream, call);
      return share(stream, call);
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kReduce:
      return sum(stream, call);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
      return share(stream, call);
    case CollectiveOp::kBarrier:
      if (size() > 1) {
        ranks_.call_nccl(rank(), [&](ncclComm_t nccl) {
          return ncclAllReduce(staging_.raw(), staging_.raw(), 1, ncclInt32, ncclMax, nccl,
                               stream.handle());
        });
      }
  }
}

void NcclCommunicator::sum(cuda::CudaStream& stream, const Collective& call) {
  if (size() == 1 && call.divisor == 1.0) {
    return;
  }
  const std::vector<Range> owned = owned_elements(call, size());
  const int64_t step = staged_bytes_ / size_of(call.dtype);
  const int64_t longest = std::ranges::max(owned, {}, &Range::numel).numel;
  for (int64_t offset = 0; offset < longest; offset += step) {
    const std::span<std::byte> mine = bytes_of(call, piece_of(owned[rank()], offset, step));
    std::vector<Transfer> transfers(size());
    std::vector<const std::byte*> sources;
    std::byte* staged = staging_.raw();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) {
        sources.push_back(mine.data());
        continue;
      }
      transfers[peer] = {bytes_of(call, piece_of(owned[peer], offset, step)),
                         {staged, mine.size()}};
      sources.push_back(staged);
      staged += staged_bytes_;
    }
    exchange(stream, transfers);
    if (!mine.empty()) {
      cuda::reduce_in_order(stream.handle(), sources, call.dtype, call.divisor, mine);
    }
  }
}

void NcclCommunicator::share(cuda::CudaStream& stream, const Collective& call) {
  const std::vector<Range> owned = owned_elements(call, size());
  const std::span<std::byte> mine = bytes_of(call, owned[rank()]);
  const std::span<std::byte> all = bytes_of(call, {0, call.numel});
  if (size() == 1 || all.empty()) {
    return;
  }
  if (call.root >= 0) {
    ranks_.call_nccl(rank(), [&](ncclComm_t nccl) {
      return ncclBroadcast(all.data(), all.data(), all.size(), ncclInt8, call.root, nccl,
                           stream.handle());
    });
  } else if (call.part == SlicePart() && call.numel % size() == 0) {
    ranks_.call_nccl(rank(), [&](ncclComm_t nccl) {
      return ncclAllGather(mine.data(), all.data(), mine.size(), ncclInt8, nccl, stream.handle());
    });
  } else {
    std::vector<Transfer> transfers(size());
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) {
        transfers[peer] = {mine, bytes_of(call, owned[peer])};
      }
    }
    exchange(stream, transfers);
  }
}

void NcclCommunicator::exchange(cuda::CudaStream& stream, const std::vector<Transfer>& transfers) {
  if (std::ranges::all_of(transfers, &Transfer::is_empty)) {
    return;
  }
  ranks_.call_nccl(rank(), [&](ncclComm_t nccl) {
    // The group's end reports what its calls say.
    ncclGroupStart();
    for (int peer = 0; peer < size(); ++peer) {
      const auto& [sent, received] = transfers[peer];
      if (!sent.empty()) {
        ncclSend(sent.data(), sent.size(), ncclInt8, peer, nccl, stream.handle());
      }
      if (!received.empty()) {
        ncclRecv(received.data(), received.size(), ncclInt8, peer, nccl, stream.handle());
      }
    }
    return ncclGroupEnd();
  });
}

}  // namespace zerolab
