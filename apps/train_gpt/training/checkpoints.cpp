#include "apps/train_gpt/training/checkpoints.h"

namespace zerolab::app {

RankCheckpoints::RankCheckpoints(const RunConfig& config, const TrainingData& data,
                                 RankContext& context, RankTrainer& trainer,
                                 const RunStorage& storage)
    : config_(config), data_(data), trainer_(trainer) {
  if (storage.writer != nullptr) {
    writer_.emplace(*storage.writer, context.rank(), *trainer.snapshot());
  }
  if (storage.resume != nullptr) {
    checkpoint::restore(*storage.resume, context, trainer.engine(), trainer.parameters());
    steps_done_ = storage.resume->manifest().state.step;
    tokens_ = storage.resume->manifest().state.tokens;
  }
}

bool RankCheckpoints::is_due(int64_t step, const zero::StepResult& result, bool last) const {
  const bool at_end = last && (!result.stop || config_.checkpoint.on_signal);
  return writer_.has_value() && (at_end || step % config_.checkpoint.every == 0);
}

void RankCheckpoints::wait() {
  if (writer_.has_value()) {
    writer_->wait();
  }
}

checkpoint::Manifest RankCheckpoints::manifest(int64_t step) const {
  RunConfig config = config_;
  config.model.vocab_size = data_.vocab_size;
  const zero::Engine& engine = trainer_.engine();
  return {.state = {.step = step,
                    .samples = step * config.train.train_batch_size,
                    .tokens = tokens_,
                    .engine = engine.state(),
                    .config = dump_toml(config),
                    .vocabulary = data_.vocabulary,
                    .stage = engine.plan().stage,
                    .world_size = config.launch.ranks,
                    .layout = config.zero.layout,
                    .precision = config.train.precision,
                    .bucket_size = engine.layout().options().bucket_size},
          .parameters = checkpoint::describe(trainer_.parameters()),
          .tensors = checkpoint::tensors_of(engine),
          .files = {}};
}

}  // namespace zerolab::app
