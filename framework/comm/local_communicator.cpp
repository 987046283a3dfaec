#include "framework/comm/local_communicator.h"

#include "framework/tensor/rank_context.h"

namespace zerolab {
namespace {

void take_part(Rendezvous& group, RankContext& context, const Collective& call,
               CommunicationLedger& ledger) {
  const Rendezvous::Result result = group.run(context.rank(), call, context.backend());
  record(call,
         {.sent = result.sent,
          .received = result.received,
          .begin = result.arrived,
          .all_arrived = result.all_arrived,
          .end = Clock::now()},
         ledger, context.recorder());
}

}  // namespace

LocalCommunicator::LocalCommunicator(Rendezvous& group, RankContext& context)
    : CheckedCommunicator(context.rank(), group.size()), group_(group), context_(context) {}

void LocalCommunicator::run(Stream& stream, const Collective& call) {
  if (size() == 1 && call.divisor == 1.0 && group_.failure().empty()) {
    // Nothing moves: a device need not be waited for.
    const Clock::time_point now = Clock::now();
    record(call, {.begin = now, .all_arrived = now, .end = now}, ledger(), context_.recorder());
    return;
  }
  if (&stream != last_stream_) {
    stream.wait(last_verb_);
    last_stream_ = &stream;
  }
  stream.run_on_host([&group = group_, &context = context_, call, ledger = shared_ledger()] {
    take_part(group, context, call, *ledger);
  });
  last_verb_ = stream.record();
}

void LocalCommunicator::barrier() {
  last_verb_.synchronize();
  take_part(group_, context_, Collective(), ledger());
}

void LocalCommunicator::abort(std::string_view reason) { group_.abort(rank(), reason); }

}  // namespace zerolab
