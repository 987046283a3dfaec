#pragma once

#include <array>
#include <utility>
#include <vector>

#include "apps/train_gpt/metrics/records.h"

namespace zerolab::app {

/// Where every rank posts what rank 0 reports of a step, so that no rank waits for another.
///
/// Two boxes take turns. The control collective of step s + 1 tells rank 0 that every rank has
/// posted step s. It also keeps a rank from posting step s + 2, into the same box, before rank 0
/// has read step s. So there is no lock.
class StepMailbox {
 public:
  struct Message {
    int64_t step = 0;
    MemoryLedger::Snapshot memory;
    CommunicationEntries communication;  ///< of collectives that ended since the last message
  };

  explicit StepMailbox(int64_t ranks)
      : boxes_{std::vector<Message>(ranks), std::vector<Message>(ranks)}, stage_memory_(ranks) {}

  /// `message.step` is above that of the rank's last message.
  void post(int rank, Message message) { boxes_[message.step % 2][rank] = std::move(message); }
  /// The messages of `step`, by rank. A rank that failed before it posted has one without bytes or
  /// collectives.
  std::vector<Message> read(int64_t step) const;

  /// The memory of a change of stage: each rank writes its own, and rank 0 reads all after a
  /// barrier.
  std::vector<StageRecord::Memory>& stage_memory() { return stage_memory_; }

 private:
  std::array<std::vector<Message>, 2> boxes_;
  std::vector<StageRecord::Memory> stage_memory_;
};

}  // namespace zerolab::app
