#include "apps/train_gpt/training/training_run.h"

#include <algorithm>
#include <utility>

#include "apps/train_gpt/inference/generate.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/training/checkpoints.h"
#include "apps/train_gpt/training/dry_run.h"
#include "apps/train_gpt/training/run_reporter.h"
#include "apps/train_gpt/training/stage_switch.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::app {
namespace {

zero::CommunicationBytes mean_communication_bytes(const zero::Layout& layout,
                                                  const zero::EngineOptions& options) {
  zero::CommunicationBytes mean;
  const int ranks = layout.options().world_size;
  for (int rank = 0; rank < ranks; ++rank) {
    const zero::CommunicationBytes bytes = zero::communication_bytes(layout, options, rank);
    mean.formula = bytes.formula;
    mean.gradients += bytes.gradients;
    mean.parameters += bytes.parameters;
  }
  mean.gradients /= ranks;
  mean.parameters /= ranks;
  return mean;
}

RunInfo describe(const zero::Engine& engine, int64_t vocab_size, std::string_view communicator) {
  const zero::Layout& layout = engine.layout();
  return {.options = engine.options(),
          .communicator = communicator,
          .vocab_size = vocab_size,
          .num_params = layout.num_params(),
          .padding = layout.padding(),
          .num_buckets = static_cast<int64_t>(layout.buckets().size()),
          .layout = std::make_shared<const zero::Layout>(layout),
          .state = zero::state_bytes(layout, engine.options(),
                                     static_cast<int>(engine.optimizer().states().size())),
          .communication = mean_communication_bytes(layout, engine.options())};
}

/// A sample is a help, not the result: where it fails, a diverged model's for instance, it tells
/// why.
SampleRecord sample_of(const RunConfig& config, const TrainingData& data, const Gpt& model,
                       int64_t step) {
  constexpr int64_t kTokens = 100;
  SampleRecord record;
  record.step = step;
  try {
    generate(model, *data.tokenizer, config.run.sample_prompt,
             {.tokens = kTokens, .sampling = {.seed = static_cast<uint64_t>(config.run.seed)}},
             [&](std::string_view part) {
               record.text += part;
               return true;
             });
  } catch (const Error& error) {
    record.error = error.what();
  }
  return record;
}

/// The loop of one rank. All ranks run the same steps: `stop` is agreed on in the control
/// collective.
void train_rank(const RunConfig& config, const TrainingData& data, RankContext& context,
                Communicator& communicator, Board& board, Reporter& reporter,
                const std::atomic<bool>& stop, const RunStorage& storage) {
  const bool reports = context.rank() == 0;
  Trace& trace = board.trace();
  const auto take_spans = [&](int64_t step) {
    std::vector<Span> spans = context.recorder().take();
    trace.add(context.rank(), step, spans, context.ledger());
    return spans;
  };
  RankTrainer trainer(context, communicator, config, data.vocab_size, &data);
  const AbortOnUnwind abort_on_unwind(communicator);
  RankCheckpoints checkpoints(config, data, context, trainer, storage);
  if (reports) {
    reporter.start(describe(trainer.engine(), data.vocab_size, plan_group(config).name));
  }
  communicator.ledger().reset();
  context.recorder().take();
  const int64_t first = checkpoints.steps_done() + 1;
  // The first step under a stage has what is done only once; the second is as all others.
  int64_t last_with_timeline = first + 1;
  for (int64_t step = first; step <= config.run.steps; ++step) {
    context.set_traced(trace.covers(step));
    if (const StageSwitch* change = switch_before(config, step)) {
      switch_stage(*change, context, communicator, trainer.engine(), board, reporter);
      take_spans(step);  // no step's
      last_with_timeline = step + 1;
    }
    const Clock::time_point begin = Clock::now();
    StepRecord record;
    record.step = step;
    record.learning_rate = trainer.learning_rate(trainer.engine().updates());
    record.result = trainer.step(step - 1, stop.load());
    const Span whole = {.kind = SpanKind::kStep,
                        .name = fmt::format("step {}", step),
                        .begin = begin,
                        .end = Clock::now()};
    context.recorder().add(whole);
    board.lay(context.rank(), {step, context.ledger().snapshot(), communicator.ledger().take()});
    const std::vector<Span> spans = take_spans(step);
    if (reports) {
      record.ms = times_of(spans, whole.milliseconds());
      const zero::Engine& engine = trainer.engine();
      record.stage = engine.options().stage;
      if (step <= last_with_timeline) {
        record.timeline = context.ledger().timeline();
        // Single changes, which a trace follows, are not the log's.
        std::erase_if(record.timeline, [](const auto& sample) { return sample.phase.empty(); });
      }
      record.excess_buffers = engine.buckets().excess_buffers();
      if (record.excess_buffers > 0) {
        record.excess_parameter =
            engine.layout().parameters()[engine.buckets().excess_parameter()].name;
      }
      reporter.hold(record);
    }
    const bool last = record.result.stop || step == config.run.steps;
    const bool saves = checkpoints.add_step(step, record.result, last);
    const bool evaluates = config.run.eval_every > 0 && !record.result.stop &&
                           (last || step % config.run.eval_every == 0);
    const bool samples =
        config.run.sample_every > 0 && !record.result.stop && step % config.run.sample_every == 0;
    if (last || evaluates || samples || saves) {
      communicator.barrier();
      if (reports) {
        reporter.report_held();
      }
    }
    if (evaluates) {
      const Evaluation evaluation = trainer.evaluate(config.run.eval_batches);
      take_spans(step);
      if (reports) {
        reporter.evaluation({step, evaluation});
      }
    }
    if (samples) {
      if (reports) {
        reporter.sample(sample_of(config, data, trainer.model(), step));
      }
      communicator.barrier();  // the next step must not seem to wait for the sample
      take_spans(step);
    }
    if (saves) {
      checkpoints.save(step);
    }
    if (reports) {
      reporter.saved(storage.writer);
    }
    if (last) {
      trainer.engine().wait_for_parameters();
      board.lay(context.rank(), {step + 1, {}, communicator.ledger().take()});
      take_spans(step + 1);
      checkpoints.wait();
      communicator.barrier();
      if (reports) {
        reporter.add_rest(step + 1);
        reporter.saved(storage.writer);
      }
      break;
    }
  }
  if (reports) {
    reporter.end(trainer.parameters());
  }
}

}  // namespace

RunSummary run_training(const RunConfig& config, const TrainingData& data, RunObserver& observer,
                        const std::atomic<bool>& stop, const RunStorage& storage) {
  const int ranks = static_cast<int>(config.launch.ranks);
  const std::unique_ptr<Backend> backend = make_backend(config);
  const std::unique_ptr<RankGroup> group = make_group(config);
  Board board(config);
  Reporter reporter(observer, board, ranks);
  try {
    run_ranks(*group, [&](int rank) {
      RankContext context(rank_options(config, rank), *backend);
      const std::unique_ptr<Communicator> communicator = group->communicator(context);
      train_rank(config, data, context, *communicator, board, reporter, stop, storage);
    });
  } catch (...) {
    reporter.report_held();  // the last whole step is not lost
    reporter.report_trace();
    throw;
  }
  reporter.report_trace();
  return reporter.finish(config.run.steps);
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
