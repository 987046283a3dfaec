#include "framework/comm/meta.h"

#include "framework/comm/checked_communicator.h"
#include "framework/comm/link.h"
#include "framework/core/modelled_stream.h"
#include "framework/tensor/rank_context.h"

namespace zerolab {
namespace {

class MetaCommunicator final : public CheckedCommunicator {
 public:
  MetaCommunicator(RankContext& context, int64_t held_bytes, const LocalOptions& link)
      : CheckedCommunicator(context.rank(), context.world_size()),
        context_(context),
        link_(link),
        held_(memory_of_communicator(context, held_bytes)) {}

  void barrier() override { run(context_.compute(), Collective()); }
  void abort(std::string_view /*reason*/) override {}

 private:
  void run(Stream& stream, const Collective& call) override {
    const FormulaBytes bytes = formula_bytes(call, rank(), size());
    auto& modelled = static_cast<ModelledStream&>(stream);
    modelled.wait_until(end_of_last_);
    const Clock::time_point begin = modelled.now();
    modelled.advance(link_time(link_, call, size(), bytes.sent, bytes.received));
    end_of_last_ = modelled.now();
    record(call,
           {.sent = bytes.sent,
            .received = bytes.received,
            .begin = begin,
            .all_arrived = begin,
            .end = end_of_last_},
           ledger(), context_.recorder());
  }

  RankContext& context_;
  const LocalOptions link_;
  const Tensor held_;
  Clock::time_point end_of_last_;
};

}  // namespace

std::unique_ptr<Communicator> make_meta_communicator(RankContext& context, int64_t held_bytes,
                                                     const LocalOptions& link) {
  return std::make_unique<MetaCommunicator>(context, held_bytes, link);
}

}  // namespace zerolab
