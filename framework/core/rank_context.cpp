#include "framework/core/rank_context.h"

#include "framework/core/backend.h"
#include "framework/core/cpu_stream.h"

namespace zerolab {

RankContext::RankContext(const RankOptions& options, Backend& backend)
    : options_(options),
      backend_(backend),
      ledger_(options.memory_limit),
      allocator_(backend.make_allocator(ledger_, options.poison)) {
  backend_.bind_thread(options.threads);
  compute_ = backend_.make_compute_stream();
  if (options.streams == StreamMode::kLazy) {
    scheduler_ = std::make_unique<LazyScheduler>(options.lazy_seed);
  }
  if (compute_ == nullptr && scheduler_ != nullptr) {
    compute_ = std::make_unique<LazyStream>(*scheduler_);
  } else if (compute_ == nullptr) {
    compute_ = std::make_unique<ImmediateStream>();
  }
}

RankContext::~RankContext() {
  // Frees that lazy streams still hold must run, after the communication that they wait for; what
  // failed has been reported at an earlier wait. A worker stream ends with its queue.
  if (scheduler_ != nullptr) {
    scheduler_->run_all();
  }
}

Stream& RankContext::communication() {
  if (communication_ == nullptr) {
    if (scheduler_ != nullptr) {
      communication_ = std::make_unique<LazyStream>(*scheduler_);
    } else {
      communication_ = std::make_unique<WorkerStream>();
    }
  }
  return *communication_;
}

void RankContext::wait_for_communication(const Event& event, std::string_view name, int bucket) {
  if (!event.is_complete()) {
    const ScopedSpan span(recorder_, SpanKind::kCommExposed, name, bucket);
    compute_->wait(event);
  }
}

}  // namespace zerolab
