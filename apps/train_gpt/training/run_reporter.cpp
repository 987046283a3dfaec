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

Reporter::Reporter(RunObserver& observer, const Board& board, int ranks)
    : observer_(observer), board_(board) {
  summary_.memory.resize(ranks);
  summary_.communication.resize(ranks);
}

void Reporter::start(RunInfo info) {
  summary_.info = std::move(info);
  observer_.on_start(summary_.info);
}

void Reporter::hold(const StepRecord& record) {
  report_held();
  held_ = record;
}

void Reporter::report_held() {
  if (!held_.has_value()) {
    return;
  }
  StepRecord record = std::move(*held_);
  held_.reset();
  for (const Board::Entry& entry : board_.read(record.step)) {
    const bool laid = entry.step == record.step;
    record.memory.push_back(laid ? entry.memory : MemoryLedger::Snapshot());
    record.communication.push_back(laid ? entry.communication : CommunicationEntries());
  }
  step(record);
  if (record.step == board_.trace().last_step() + 1) {
    report_trace();
  }
}

void Reporter::report_trace() {
  if (board_.trace().wanted() && !std::exchange(trace_told_, true)) {
    observer_.on_trace(board_.trace());
  }
}

void Reporter::evaluation(const EvaluationRecord& record) {
  summary_.evaluation = record.evaluation;
  observer_.on_evaluation(record);
}

void Reporter::saved(checkpoint::Writer* writer) {
  if (writer == nullptr) {
    return;
  }
  for (const checkpoint::Saved& saved : writer->take_saved()) {
    summary_.checkpoint_error = saved.error;
    observer_.on_checkpoint(saved);
  }
}

void Reporter::add_rest(int64_t step) {
  std::vector<CommunicationEntries> entries;
  for (const Board::Entry& entry : board_.read(step)) {
    entries.push_back(entry.communication);
  }
  add(entries);
}

void Reporter::add(const std::vector<CommunicationEntries>& entries) {
  for (size_t rank = 0; rank < entries.size(); ++rank) {
    for (const auto& [key, entry] : entries[rank]) {
      summary_.communication[rank][key] += entry;
    }
  }
}

RunSummary Reporter::finish(int64_t planned_steps) {
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

void Reporter::step(const StepRecord& record) {
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
  }
  add(record.communication);
  if (summary_.steps > 1) {
    rates_.push_back(record.tokens_per_s());
    for (double StepTimes::*const time : kTimes) {
      summary_.ms.*time += record.ms.*time;
    }
  }
}

}  // namespace zerolab::app
