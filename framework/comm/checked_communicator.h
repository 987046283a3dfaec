#pragma once

#include "framework/comm/collective.h"
#include "framework/core/recorder.h"

namespace zerolab {

class RankContext;

/// What the communicators of all kinds share: each verb's arguments are checked, then `run` puts
/// the call on the stream.
class CheckedCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  void all_reduce(Stream& stream, const Tensor& buffer, double divisor, const CommTag& tag) final;
  void reduce_scatter(Stream& stream, const Tensor& buffer, double divisor,
                      const CommTag& tag) final;
  void all_gather(Stream& stream, const Tensor& buffer, const CommTag& tag,
                  const SlicePart& part) final;
  void reduce(Stream& stream, const Tensor& buffer, int root, double divisor,
              const CommTag& tag) final;
  void broadcast(Stream& stream, const Tensor& buffer, int root, const CommTag& tag) final;

 protected:
  CheckedCommunicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual void run(Stream& stream, const Collective& call) = 0;

 private:
  void check_root(const Collective& call) const;
  void check_slices(const Collective& call) const;

  const int rank_;
  const int size_;
};

/// Memory that a communicator holds (Category::kCommunication); `bytes` of it, a multiple of 4.
Tensor memory_of_communicator(RankContext& context, int64_t bytes);

/// One finished collective of one rank.
struct CollectiveTimes {
  int64_t sent = 0;
  int64_t received = 0;
  Clock::time_point begin;
  Clock::time_point all_arrived;
  Clock::time_point end;
};
/// Writes it to the ledger and, as a span of waiting and, next to it, a span of transfer, to the
/// recorder.
void record(const Collective& call, const CollectiveTimes& times, CommunicationLedger& ledger,
            Recorder& recorder);

}  // namespace zerolab
