#include "framework/comm/meta.h"

#include "framework/comm/checked_communicator.h"
#include "framework/core/rank_context.h"

namespace zerolab {
namespace {

void count(int rank, int size, const Collective& call, CommunicationLedger& ledger,
           Recorder& recorder) {
  const FormulaBytes bytes = formula_bytes(call, rank, size);
  const Clock::time_point now = Clock::now();
  record(call,
         {.sent = bytes.sent,
          .received = bytes.received,
          .begin = now,
          .all_arrived = now,
          .end = now},
         ledger, recorder);
}

class MetaCommunicator final : public CheckedCommunicator {
 public:
  MetaCommunicator(RankContext& context, int64_t held_bytes)
      : CheckedCommunicator(context.rank(), context.world_size()),
        context_(context),
        held_(memory_of_communicator(context, held_bytes)) {}

  void barrier() override {
    count(rank(), size(), Collective(), *shared_ledger(), context_.recorder());
  }
  void abort(std::string_view /*reason*/) override {}

 private:
  void run(Stream& stream, const Collective& call) override {
    stream.run_on_host(
        [rank = rank(), size = size(), call, ledger = shared_ledger(),
         &recorder = context_.recorder()] { count(rank, size, call, *ledger, recorder); });
  }

  RankContext& context_;
  const Tensor held_;
};

}  // namespace

std::unique_ptr<Communicator> make_meta_communicator(RankContext& context, int64_t held_bytes) {
  return std::make_unique<MetaCommunicator>(context, held_bytes);
}

}  // namespace zerolab
