#include "apps/train_gpt/training/run_reporter.h"

#include <algorithm>
#include <utility>

namespace zerolab::app {
namespace {

constexpr double StepTimes::*kTimes[] = {&StepTimes::forward,       &StepTimes::backward,
                                         &StepTimes::optimizer,     &StepTimes::comm_wait,
                                         &StepTimes::comm_transfer, &StepTimes::comm_exposed,
                                         &StepTimes::step};

}  // namespace

RunReporter::RunReporter(RunObserver& observer, const StepMailbox& mailbox, const Trace& trace,
                         int ranks)
    : observer_(observer), mailbox_(mailbox), trace_(trace) {
  summary_.memory.resize(ranks);
  summary_.communication.resize(ranks);
}

void RunReporter::start(RunInfo info) {
  summary_.info = std::move(info);
  observer_.on_start(summary_.info);
}

void RunReporter::defer(StepRecord record) {
  report_deferred();
  deferred_ = std::move(record);
}

void RunReporter::report_deferred() {
  if (!deferred_.has_value()) {
    return;
  }
  StepRecord record = std::move(*deferred_);
  deferred_.reset();
  for (StepMailbox::Message& message : mailbox_.read(record.step)) {
    record.memory.push_back(message.memory);
    record.communication.push_back(std::move(message.communication));
  }
  report(record);
  // Every rank's spans are complete with the first step after the traced ones.
  if (record.step == trace_.last_step() + 1) {
    report_trace();
  }
}

void RunReporter::report_trace() {
  if (trace_.wanted() && !std::exchange(trace_reported_, true)) {
    observer_.on_trace(trace_);
  }
}

void RunReporter::report(const EvaluationRecord& record) {
  summary_.evaluation = record.evaluation;
  observer_.on_evaluation(record);
}

void RunReporter::report_saved(checkpoint::Writer* writer) {
  if (writer == nullptr) {
    return;
  }
  for (const checkpoint::Saved& saved : writer->take_saved()) {
    summary_.checkpoint_error = saved.error;
    observer_.on_checkpoint(saved);
  }
}

void RunReporter::add_late_communication(int64_t step) {
  const std::vector<StepMailbox::Message> messages = mailbox_.read(step);
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    add_entries(summary_.communication[rank], messages[rank].communication);
  }
}

RunSummary RunReporter::finish(int64_t planned_steps) {
  summary_.stopped = summary_.last_step < planned_steps;
  if (!rates_.empty()) {
    for (double StepTimes::*const time : kTimes) {
      summary_.ms.*time /= static_cast<double>(rates_.size());
    }
    std::nth_element(rates_.begin(), rates_.begin() + rates_.size() / 2, rates_.end());
    summary_.tokens_per_s = rates_[rates_.size() / 2];
  }
  return std::move(summary_);
}

void RunReporter::report(const StepRecord& record) {
  observer_.on_step(record);
  ++summary_.steps;
  summary_.last_step = record.step;
  summary_.skipped_steps += record.result.skipped.has_value() ? 1 : 0;
  summary_.losses.push_back(record.result.loss);
  summary_.excess_buffers = record.excess_buffers;
  for (size_t rank = 0; rank < record.memory.size(); ++rank) {
    if (record.memory[rank].total_peak >= summary_.memory[rank].total_peak) {
      summary_.memory[rank] = record.memory[rank];
    }
    add_entries(summary_.communication[rank], record.communication[rank]);
  }
  if (summary_.steps > 1) {
    rates_.push_back(record.tokens_per_s());
    for (double StepTimes::*const time : kTimes) {
      summary_.ms.*time += record.ms.*time;
    }
  }
}

}  // namespace zerolab::app
