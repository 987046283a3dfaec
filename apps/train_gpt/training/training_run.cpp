#include "apps/train_gpt/training/training_run.h"

#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/training/dry_run.h"
#include "apps/train_gpt/training/rank_run.h"
#include "framework/tensor/backend.h"

namespace zerolab::app {
RunSummary run_training(const RunConfig& config, const TrainingData& data, RunObserver& observer,
                        const std::atomic<bool>& stop, const RunStorage& storage) {
  const std::unique_ptr<Backend> backend = make_backend(config);
  const std::unique_ptr<RankGroup> group = make_group(config);
  SharedRun run(config, data, observer, stop, storage);
  try {
    run_ranks(*group, [&](int rank) {
      RankContext context(rank_options(config, rank), *backend);
      const std::unique_ptr<Communicator> communicator = group->communicator(context);
      RankRun(run, context, *communicator).train();
    });
  } catch (...) {
    run.reporter.report_deferred();  // the last whole step is not lost
    run.reporter.report_trace();
    throw;
  }
  run.reporter.report_trace();
  return run.reporter.finish(config.run.steps);
}

MemoryLedger::Snapshot dry_run(const RunConfig& config, int64_t vocab_size, int rank) {
  const std::unique_ptr<Backend> imitated = make_backend(config);
  DryRun dry(config, vocab_size, rank, *imitated);
  dry.trainer().step(0, false);
  const MemoryLedger::Snapshot memory = dry.context().ledger().snapshot();
  for (const StageSwitch& change : config.zero.schedule) {
    dry.trainer().engine().set_stage(static_cast<int>(change.stage));
    dry.trainer().step(change.step - 1, false);
  }
  return memory;
}

}  // namespace zerolab::app
