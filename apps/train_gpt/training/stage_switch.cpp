#include "apps/train_gpt/training/stage_switch.h"

#include <algorithm>

namespace zerolab::app {

const StageSwitch* switch_before(const RunConfig& config, int64_t step) {
  const auto found = std::ranges::find(config.zero.schedule, step, &StageSwitch::step);
  return found == config.zero.schedule.end() ? nullptr : &*found;
}

void switch_stage(const StageSwitch& change, RankContext& context, Communicator& communicator,
                  zero::Engine& engine, Board& board, Reporter& reporter) {
  communicator.barrier();  // all have laid the step before
  const bool reports = context.rank() == 0;
  if (reports) {
    reporter.report_held();
  }
  StageRecord record;
  record.step = change.step;
  record.from = engine.plan().stage;
  record.to = static_cast<int>(change.stage);

  engine.wait_for_parameters();
  context.ledger().reset_peaks();
  StageRecord::Memory& memory = board.stage_memory()[context.rank()];
  memory.before = context.ledger().snapshot().current;
  const Clock::time_point begin = Clock::now();
  engine.set_stage(record.to);
  context.compute().synchronize();
  record.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const MemoryLedger::Snapshot after = context.ledger().snapshot();
  memory.after = after.current;
  memory.peak = after.total_peak;

  communicator.barrier();
  if (reports) {
    record.memory = board.stage_memory();
    reporter.stage(record);
  }
}

}  // namespace zerolab::app
