#include "apps/train_gpt/training/rank_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "apps/train_gpt/inference/generate.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/training/run_info.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

/// The switch that `[[zero.schedule]]` sets before `step`; null: none.
const StageSwitch* switch_before(const RunConfig& config, int64_t step) {
  const auto found = std::ranges::find(config.zero.schedule, step, &StageSwitch::step);
  return found == config.zero.schedule.end() ? nullptr : &*found;
}

/// A sample is a help, not the result: where it fails, as a diverged model's does, the record says
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

}  // namespace

SharedRun::SharedRun(const RunConfig& config, const TrainingData& data, RunObserver& observer,
                     const std::atomic<bool>& stop, const RunStorage& storage)
    : config(config),
      data(data),
      stop(stop),
      storage(storage),
      mailbox(config.launch.ranks),
      trace(config),
      reporter(observer, mailbox, trace, static_cast<int>(config.launch.ranks)) {}

RankRun::RankRun(SharedRun& run, RankContext& context, Communicator& communicator)
    : run_(run),
      context_(context),
      communicator_(communicator),
      trainer_(context, communicator, run.config, run.data.vocab_size, &run.data),
      abort_on_unwind_(communicator),
      checkpoints_(run.config, run.data, context, trainer_, run.storage) {}

void RankRun::train() {
  start();
  bool ended = false;
  for (int64_t step = checkpoints_.steps_done() + 1; !ended && step <= run_.config.run.steps;
       ++step) {
    context_.set_traced(run_.trace.covers(step));
    if (const StageSwitch* change = switch_before(run_.config, step)) {
      switch_stage(*change);
    }
    const Due due = due_after(step, this->step(step));
    if (due.any()) {
      meet();
    }
    if (due.evaluation) {
      evaluate(step);
    }
    if (due.sample) {
      sample(step);
    }
    if (due.checkpoint) {
      checkpoints_.save(step);
    }
    if (reports()) {
      run_.reporter.report_saved(run_.storage.writer);
    }
    if (due.end) {
      finish(step);
    }
    ended = due.end;
  }
  if (reports()) {
    run_.reporter.end(trainer_.parameters());
  }
}

void RankRun::start() {
  if (reports()) {
    run_.reporter.start(
        describe_run(trainer_.engine(), run_.data.vocab_size, plan_group(run_.config).name));
  }
  communicator_.ledger().reset();
  context_.recorder().take();
  // The first step under a stage does what is done only once; the second is as all others.
  last_with_timeline_ = checkpoints_.steps_done() + 2;
}

void RankRun::switch_stage(const StageSwitch& change) {
  meet();
  zero::Engine& engine = trainer_.engine();
  StageRecord record;
  record.step = change.step;
  record.from = engine.plan().stage;
  record.to = static_cast<int>(change.stage);

  engine.wait_for_parameters();
  context_.ledger().reset_peaks();
  StageRecord::Memory& memory = run_.mailbox.stage_memory()[context_.rank()];
  memory.before = context_.ledger().snapshot().current;
  const Clock::time_point begin = Clock::now();
  engine.set_stage(record.to);
  context_.compute().synchronize();
  record.ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  const MemoryLedger::Snapshot after = context_.ledger().snapshot();
  memory.after = after.current;
  memory.peak = after.total_peak;

  communicator_.barrier();
  if (reports()) {
    record.memory = run_.mailbox.stage_memory();
    run_.reporter.report(record);
  }
  take_spans(change.step);  // no step's
  last_with_timeline_ = change.step + 1;
}

zero::StepResult RankRun::step(int64_t step) {
  const Clock::time_point begin = Clock::now();
  const double learning_rate = trainer_.learning_rate(trainer_.engine().updates());
  const zero::StepResult result = trainer_.step(step - 1, run_.stop.load());
  const Span whole = {.kind = SpanKind::kStep,
                      .name = fmt::format("step {}", step),
                      .begin = begin,
                      .end = Clock::now()};
  context_.recorder().add(whole);
  post(step, context_.ledger().snapshot());
  const std::vector<Span> spans = take_spans(step);
  if (reports()) {
    StepRecord record = record_of(step);
    record.learning_rate = learning_rate;
    record.result = result;
    record.ms = times_of(spans, whole.milliseconds());
    run_.reporter.defer(std::move(record));
  }
  return result;
}

StepRecord RankRun::record_of(int64_t step) const {
  const zero::Engine& engine = trainer_.engine();
  StepRecord record;
  record.step = step;
  record.stage = engine.plan().stage;
  if (step <= last_with_timeline_) {
    record.timeline = context_.ledger().timeline();
    // Single changes, which a trace follows, are not the log's.
    std::erase_if(record.timeline, [](const auto& sample) { return sample.phase.empty(); });
  }
  record.excess_buffers = engine.bucket_memory().excess_buffers();
  if (record.excess_buffers > 0) {
    record.excess_parameter =
        engine.layout().parameters()[engine.bucket_memory().excess_parameter()].name;
  }
  return record;
}

RankRun::Due RankRun::due_after(int64_t step, const zero::StepResult& result) {
  const RunSection& run = run_.config.run;
  const auto is_turn = [step](int64_t every) { return every > 0 && step % every == 0; };
  const bool last = result.stop || step == run.steps;
  checkpoints_.count(result);
  return {.evaluation = !result.stop && run.eval_every > 0 && (last || is_turn(run.eval_every)),
          .sample = !result.stop && is_turn(run.sample_every),
          .checkpoint = checkpoints_.is_due(step, result, last),
          .end = last};
}

void RankRun::evaluate(int64_t step) {
  const Evaluation evaluation = trainer_.evaluate(run_.config.run.eval_batches);
  take_spans(step);
  if (reports()) {
    run_.reporter.report(EvaluationRecord{.step = step, .evaluation = evaluation});
  }
}

void RankRun::sample(int64_t step) {
  if (reports()) {
    run_.reporter.report(sample_of(run_.config, run_.data, trainer_.model(), step));
  }
  communicator_.barrier();  // the next step must not seem to wait for the sample
  take_spans(step);
}

void RankRun::finish(int64_t step) {
  trainer_.engine().wait_for_parameters();
  post(step + 1, {});
  take_spans(step + 1);
  checkpoints_.wait();
  communicator_.barrier();
  if (reports()) {
    run_.reporter.add_late_communication(step + 1);
    run_.reporter.report_saved(run_.storage.writer);
  }
}

void RankRun::post(int64_t step, const MemoryLedger::Snapshot& memory) {
  run_.mailbox.post(context_.rank(), {step, memory, communicator_.ledger().take()});
}

void RankRun::meet() {
  communicator_.barrier();
  if (reports()) {
    run_.reporter.report_deferred();
  }
}

std::vector<Span> RankRun::take_spans(int64_t step) {
  std::vector<Span> spans = context_.recorder().take();
  run_.trace.add(context_.rank(), step, spans, context_.ledger());
  return spans;
}

}  // namespace zerolab::app
