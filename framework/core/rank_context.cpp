#include "framework/core/rank_context.h"

#include "framework/core/backend.h"

namespace zerolab {

RankContext::RankContext(const RankOptions& options, Backend& backend)
    : options_(options), backend_(backend), ledger_(options.memory_limit) {
  backend.bind_thread(options.rank, options.threads);  // before the device is asked for anything
  allocator_ = backend.make_allocator(ledger_, options.poison);
  streams_ = backend.make_streams(options.streams, options.lazy_seed);
  compute_ = &streams_->compute();
}

void RankContext::wait_for_communication(const Event& event, std::string_view name, int bucket) {
  if (!event.is_complete()) {
    const ScopedSpan exposed = span(SpanKind::kCommExposed, name, bucket);
    compute_->wait(event);
  }
}

}  // namespace zerolab
