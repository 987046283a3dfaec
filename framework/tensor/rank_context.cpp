#include "framework/tensor/rank_context.h"

#include <fmt/format.h>

#include "framework/tensor/backend.h"

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

void RankContext::set_traced(bool traced) {
  traced_ = traced;
  ledger_.follow(traced);
}

void RankContext::mark(SpanKind kind, std::string_view name, int bucket) {
  if (traced_) {
    const StreamTime now = compute_->time();
    recorder_.add({.kind = kind, .name = std::string(name), .bucket = bucket}, now, now);
  }
}

ModuleScope::ModuleScope(RankContext& context, std::string_view module, std::string_view part)
    : context_(context) {
  if (context.traced_) {
    const std::string name =
        part.empty() ? std::string(module) : fmt::format("{}.{}", module, part);
    span_.emplace(context.recorder_, *context.compute_,
                  Span{.kind = SpanKind::kModule, .name = name});
    context.module_ = std::make_shared<RunningModule>(RunningModule{name, context.module_});
  }
}

ModuleScope::~ModuleScope() {
  if (span_.has_value()) {
    context_.module_ = context_.module_->outer;
  }
}

}  // namespace zerolab
