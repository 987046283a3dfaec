#include "framework/comm/communicator.h"

#include <utility>

namespace zerolab {

std::string_view name_of(CollectiveOp op) {
  constexpr std::string_view kNames[kNumCollectiveOps] = {
      "all_reduce", "reduce_scatter", "all_gather", "reduce", "broadcast", "barrier"};
  return kNames[static_cast<int>(op)];
}

std::string_view name_of(Purpose purpose) {
  constexpr std::string_view kNames[] = {"gradient", "parameter", "control", "state"};
  return kNames[static_cast<int>(purpose)];
}

CommunicationLedger::Entry& CommunicationLedger::Entry::operator+=(const Entry& other) {
  calls += other.calls;
  bytes_sent += other.bytes_sent;
  bytes_received += other.bytes_received;
  wait_ms += other.wait_ms;
  transfer_ms += other.transfer_ms;
  return *this;
}

void CommunicationLedger::add(CollectiveOp op, const CommTag& tag, const Entry& entry) {
  const std::lock_guard lock(mutex_);
  entries_[{op, tag.purpose}] += entry;
}

std::map<CommunicationLedger::Key, CommunicationLedger::Entry> CommunicationLedger::entries()
    const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

int64_t CommunicationLedger::bytes_sent(Purpose purpose) const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [key, entry] : entries_) {
    if (key.second == purpose) {
      bytes += entry.bytes_sent;
    }
  }
  return bytes;
}

std::map<CommunicationLedger::Key, CommunicationLedger::Entry> CommunicationLedger::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
}

int64_t bytes_sent_by(CollectiveOp op, int64_t numel, int64_t element_bytes, int rank, int size,
                      int root) {
  if (size == 1) {
    return 0;
  }
  const int64_t bytes = numel * element_bytes;
  switch (op) {
    case CollectiveOp::kAllReduce: {
      // Everyone's chunk but the own one goes out to be summed; then the own sum to everyone.
      const int64_t chunk = chunk_begin(numel, rank + 1, size) - chunk_begin(numel, rank, size);
      return bytes + (size - 2) * chunk * element_bytes;
    }
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllGather:
      return bytes / size * (size - 1);
    case CollectiveOp::kReduce:
      return rank == root ? 0 : bytes;
    case CollectiveOp::kBroadcast:
      return (rank + 1) % size == root ? 0 : bytes;
    case CollectiveOp::kBarrier:
      break;
  }
  return 0;
}

}  // namespace zerolab
