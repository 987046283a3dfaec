#include "apps/train_gpt/metrics/records.h"

namespace zerolab::app {

StepTimes times_of(const std::vector<Span>& spans, double step_ms) {
  StepTimes times;
  times.step = step_ms;
  const auto phase_time = [&](SpanKind kind) -> double* {
    switch (kind) {
      case SpanKind::kForward:
        return &times.forward;
      case SpanKind::kBackward:
        return &times.backward;
      case SpanKind::kOptimizer:
        return &times.optimizer;
      default:
        return nullptr;
    }
  };
  for (const Span& span : spans) {
    if (double* time = phase_time(span.kind)) {
      *time += span.milliseconds();
    } else if (span.kind == SpanKind::kCommWait) {
      times.comm_wait += span.milliseconds();
    } else if (span.kind == SpanKind::kCommTransfer) {
      times.comm_transfer += span.milliseconds();
    } else if (span.kind == SpanKind::kCommExposed) {
      times.comm_exposed += span.milliseconds();
      for (const Span& phase : spans) {
        double* time = phase_time(phase.kind);
        if (time != nullptr && phase.begin <= span.begin && span.end <= phase.end) {
          *time -= span.milliseconds();
        }
      }
    }
  }
  return times;
}

void add_entries(CommunicationEntries& sum, const CommunicationEntries& entries) {
  for (const auto& [key, entry] : entries) {
    sum[key] += entry;
  }
}

CommunicationLedger::Entry total_of(const CommunicationEntries& entries, Purpose purpose) {
  CommunicationLedger::Entry total;
  for (const auto& [key, entry] : entries) {
    if (key.second == purpose) {
      total += entry;
    }
  }
  return total;
}

CommunicationMean RunSummary::communication_mean(Purpose purpose) const {
  CommunicationLedger::Entry sum;
  for (const CommunicationEntries& entries : communication) {
    sum += total_of(entries, purpose);
  }
  const double count =
      static_cast<double>(std::max<int64_t>(steps, 1)) * static_cast<double>(communication.size());
  return {.bytes_sent = static_cast<double>(sum.bytes_sent) / count,
          .wait_ms = sum.wait_ms / count,
          .transfer_ms = sum.transfer_ms / count};
}

double RunSummary::bytes_sent_per_step() const {
  return communication_mean(Purpose::kGradient).bytes_sent +
         communication_mean(Purpose::kParameter).bytes_sent;
}

}  // namespace zerolab::app
