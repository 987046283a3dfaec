#include "apps/train_gpt/training_run.h"

#include "apps/train_gpt/run_reporter.h"
#include "framework/comm/local.h"
#include "framework/comm/meta.h"
#include "framework/core/error.h"
#include "framework/meta/backend.h"
#include "framework/onednn/backend.h"
#include "framework/plain/backend.h"

namespace zerolab::app {
namespace {

RankOptions rank_options(const RunConfig& config, int rank) {
  return {.rank = rank,
          .world_size = static_cast<int>(config.launch.ranks),
          .threads = static_cast<int>(config.launch.threads_per_rank),
          .memory_limit = config.launch.memory_limit,
          .poison = config.debug.poison};
}

RunInfo describe(const zero::Engine& engine, int64_t vocab_size, int rank) {
  const zero::Layout& layout = engine.layout();
  return {.options = engine.options(),
          .vocab_size = vocab_size,
          .num_params = layout.num_params(),
          .padding = layout.padding(),
          .num_buckets = static_cast<int64_t>(layout.buckets().size()),
          .layout = layout.to_string(),
          .layout_hash = layout.hash(),
          .state = zero::state_bytes(layout, engine.options(),
                                     static_cast<int>(engine.optimizer().states().size())),
          .communication = zero::communication_bytes(layout, engine.options(), rank)};
}

/// The loop of one rank. All ranks run the same steps: `stop` is agreed on in the control
/// collective.
void train_rank(const RunConfig& config, const TrainingData& data, RankContext& context,
                Communicator& communicator, Board& board, Reporter& reporter,
                const std::atomic<bool>& stop) {
  const bool reports = context.rank() == 0;
  RankTrainer trainer(context, communicator, config, data.vocab_size, &data);
  const AbortOnUnwind abort_on_unwind(communicator);
  if (reports) {
    reporter.start(describe(trainer.engine(), data.vocab_size, context.rank()));
  }
  communicator.ledger().reset();
  for (int64_t step = 1; step <= config.run.steps; ++step) {
    context.recorder().take();
    const Clock::time_point begin = Clock::now();
    StepRecord record;
    record.step = step;
    record.learning_rate = trainer.learning_rate(trainer.engine().updates());
    record.result = trainer.step(step - 1, stop.load());
    const double step_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    board.lay(context.rank(), {step, context.ledger().snapshot(), communicator.ledger().take()});
    if (reports) {
      record.ms = times_of(context.recorder().take(), step_ms);
      const zero::Engine& engine = trainer.engine();
      record.excess_buffers = engine.buckets().excess_buffers();
      if (record.excess_buffers > 0) {
        record.excess_parameter =
            engine.layout().parameters()[engine.buckets().excess_parameter()].name;
      }
      reporter.hold(record);
    }
    const bool last = record.result.stop || step == config.run.steps;
    const bool evaluates = config.run.eval_every > 0 && !record.result.stop &&
                           (last || step % config.run.eval_every == 0);
    if (last || evaluates) {
      communicator.barrier();
      if (reports) {
        reporter.report_held();
      }
    }
    if (evaluates) {
      const RankTrainer::Evaluation evaluation = trainer.evaluate(config.run.eval_batches);
      if (reports) {
        reporter.evaluation({step, evaluation});
      }
    }
    if (last) {
      break;
    }
  }
  trainer.engine().wait_for_parameters();
  if (reports) {
    reporter.add(communicator.ledger().take());
    reporter.end(trainer.parameters());
  }
}

}  // namespace

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

int64_t RunSummary::bytes_sent(Purpose purpose) const {
  int64_t sum = 0;
  for (const auto& [key, entry] : communication) {
    sum += key.second == purpose ? entry.bytes_sent : 0;
  }
  return sum;
}

double RunSummary::bytes_sent_per_step() const {
  return steps == 0 ? 0.0
                    : static_cast<double>(bytes_sent(Purpose::kGradient) +
                                          bytes_sent(Purpose::kParameter)) /
                          static_cast<double>(steps);
}

std::unique_ptr<Backend> make_backend(const LaunchSection& launch) {
  return launch.backend == "onednn" ? make_onednn_backend() : make_plain_backend();
}

RunSummary run_training(const RunConfig& config, const TrainingData& data, RunObserver& observer,
                        const std::atomic<bool>& stop) {
  const int ranks = static_cast<int>(config.launch.ranks);
  const std::unique_ptr<Backend> backend = make_backend(config.launch);
  LocalGroup group(ranks, {.timeout_s = config.comm.timeout_s});
  Board board(ranks);
  Reporter reporter(observer, board, ranks);
  try {
    run_ranks(group, [&](int rank) {
      RankContext context(rank_options(config, rank), *backend);
      const std::unique_ptr<Communicator> communicator = group.communicator(context);
      train_rank(config, data, context, *communicator, board, reporter, stop);
    });
  } catch (...) {
    reporter.report_held();  // the last whole step is not lost
    throw;
  }
  return reporter.finish(config.run.steps);
}

MemoryLedger::Snapshot dry_run(const RunConfig& config, int64_t vocab_size, int rank) {
  const std::unique_ptr<Backend> imitated = make_backend(config.launch);
  const std::unique_ptr<Backend> backend = make_meta_backend(*imitated);
  RankContext context(rank_options(config, rank), *backend);
  const std::unique_ptr<Communicator> communicator = make_meta_communicator(context);
  RankTrainer trainer(context, *communicator, config, vocab_size, nullptr);
  trainer.step(0, false);
  return context.ledger().snapshot();
}

}  // namespace zerolab::app
