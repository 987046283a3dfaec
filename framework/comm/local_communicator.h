#pragma once

#include "framework/comm/checked_communicator.h"
#include "framework/comm/rendezvous.h"
#include "framework/core/stream.h"

namespace zerolab {

/// One rank of a `LocalGroup`. Verbs go to a CPU stream as closures that hold no tensor and do not
/// need the communicator any more.
class LocalCommunicator final : public CheckedCommunicator {
 public:
  LocalCommunicator(Rendezvous& group, RankContext& context);
  void barrier() override;
  void abort(std::string_view reason) override;

 private:
  void run(Stream& stream, const Collective& call) override;

  Rendezvous& group_;
  RankContext& context_;
  const Stream* last_stream_ = nullptr;
  Event last_verb_;  ///< a verb on another stream waits for it, so that all ranks keep one order
};

}  // namespace zerolab
