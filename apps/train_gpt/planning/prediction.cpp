#include "apps/train_gpt/planning/prediction.h"

#include "apps/train_gpt/training/dry_run.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

constexpr Category kModelStates[] = {Category::kParameters, Category::kGradients,
                                     Category::kOptimizerState, Category::kMasterWeights};
Clock::time_point time_of(RankContext& context) { return context.compute().time().get().value(); }

}  // namespace

int64_t Prediction::model_states() const {
  int64_t bytes = 0;
  for (const Category category : kModelStates) {
    bytes += memory.current_of(category);
  }
  return bytes;
}

int64_t Prediction::bytes_sent(Purpose purpose) const {
  return total_of(communication, purpose).bytes_sent;
}

double largest_tensor_numel(const RunConfig& config, int64_t vocab_size) {
  return static_cast<double>(config.train.micro_batch_size * config.model.block_size) *
         static_cast<double>(std::max(4 * config.model.n_embd, vocab_size));
}

RunConfig with_ranks(RunConfig config, int64_t ranks) {
  config.launch.ranks = ranks;
  config.launch.memory_limit = 0;
  config.train.train_batch_size =
      config.train.micro_batch_size * config.train.gradient_accumulation_steps * ranks;
  return config;
}

Prediction predict(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                   const DeviceModel& device) {
  if (largest_tensor_numel(config, vocab_size) >= kMostTensorElements) {
    throw ConfigError(
        "plan",
        fmt::format("a micro-batch of {} x {} tokens has a tensor of 2^55 elements or more; lower "
                    "train.micro_batch_size or model.block_size",
                    config.train.micro_batch_size, config.model.block_size));
  }
  DryRun dry(config, vocab_size, 0, imitated, device.speed, device.link);
  Prediction prediction;
  prediction.start_peak = dry.context().ledger().snapshot().total_peak;
  dry.trainer().step(0, false);
  // With overlap_comm the parameters' gather of a step runs into the next: the second is like all.
  dry.context().recorder().take();
  dry.communicator().ledger().reset();
  const Clock::time_point begin = time_of(dry.context());
  dry.trainer().step(1, false);
  const double ms =
      std::chrono::duration<double, std::milli>(time_of(dry.context()) - begin).count();
  const zero::Engine& engine = dry.trainer().engine();
  prediction.plan = engine.plan();
  prediction.bucket_size = engine.layout().options().bucket_size;
  prediction.ranks = config.launch.ranks;
  prediction.num_params = engine.layout().num_params();
  prediction.padding = engine.layout().padding();
  prediction.num_buckets = static_cast<int64_t>(engine.layout().buckets().size());
  prediction.memory = dry.context().ledger().snapshot();
  prediction.communication = dry.communicator().ledger().entries();
  prediction.formula = zero::communication_bytes(engine.layout(), engine.plan(), 0);
  prediction.ms = times_of(dry.context().recorder().take(), ms);
  return prediction;
}

}  // namespace zerolab::app
