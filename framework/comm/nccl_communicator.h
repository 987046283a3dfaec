#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "framework/comm/checked_communicator.h"
#include "framework/comm/nccl_ranks.h"
#include "framework/cuda/cuda_stream.h"
#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

/// One rank of a group that NCCL joins (nccl.h). Verbs are on their stream when a call returns.
class NcclCommunicator final : public CheckedCommunicator {
 public:
  NcclCommunicator(NcclRanks& ranks, RankContext& context, const NcclOptions& options);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  void barrier() override;
  void abort(std::string_view reason) override;

 private:
  /// With one peer.
  struct Transfer {
    std::span<std::byte> sent;
    std::span<std::byte> received;

    bool is_empty() const { return sent.empty() && received.empty(); }
  };

  void run(Stream& stream, const Collective& call) override;
  void enter_ended() override;

  void put(cuda::CudaStream& stream, const Collective& call);
  /// Each rank gets the sum of everyone's elements that it owns (`owned_elements`), in place.
  void sum(cuda::CudaStream& stream, const Collective& call);
  /// Everyone gets the elements that each rank owns, in place.
  void share(cuda::CudaStream& stream, const Collective& call);
  /// All at once; by peer, the own one being empty.
  void exchange(cuda::CudaStream& stream, const std::vector<Transfer>& transfers);

  NcclRanks& ranks_;
  RankContext& context_;
  const int64_t staged_bytes_;  ///< by each peer
  Tensor staging_;
  Event last_verb_;  ///< a verb on another stream waits for it, so that all ranks keep one order
};

}  // namespace zerolab
