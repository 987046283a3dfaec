#include "apps/train_gpt/planning/prediction.h"

#include <algorithm>
#include <cmath>

#include "apps/train_gpt/training/dry_run.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

constexpr Category kModelStates[] = {Category::kParameters, Category::kGradients,
                                     Category::kOptimizerState, Category::kMasterWeights};
constexpr int64_t kMostSamples = 1'000'000;  // of a micro-batch, as in the table of keys
constexpr int64_t kMostLayers = 1'000;
constexpr double kMostElements = 0x1p55;  // of one tensor: beyond it bytes would overflow

double largest_tensor(const RunConfig& config, int64_t vocab_size) {
  return static_cast<double>(config.train.micro_batch_size * config.model.block_size) *
         static_cast<double>(std::max(4 * config.model.n_embd, vocab_size));
}

Clock::time_point time_of(RankContext& context) { return context.compute().time().get().value(); }

Largest largest(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                const Machine& machine, int64_t limit, int64_t& value) {
  int64_t num_params = 0;
  const auto bytes = [&](int64_t x) {
    value = x;
    DryRun dry(config, vocab_size, 0, imitated);
    const int64_t start = dry.context().ledger().snapshot().total_peak;
    dry.trainer().step(0, false);
    num_params = dry.trainer().engine().layout().num_params();
    return std::max(start, dry.context().ledger().snapshot().total_peak);
  };
  Largest result;
  result.value = largest_that_fits(bytes, machine.memory, limit);
  result.more_fits = result.value == limit;
  if (result.value > 0) {
    bytes(result.value);
    result.num_params = num_params;
  }
  return result;
}

}  // namespace

int64_t Prediction::model_states() const {
  int64_t bytes = 0;
  for (const Category category : kModelStates) {
    bytes += memory.current_of(category);
  }
  return bytes;
}

int64_t Prediction::bytes_sent(Purpose purpose) const {
  int64_t bytes = 0;
  for (const auto& [key, entry] : communication) {
    bytes += key.second == purpose ? entry.bytes_sent : 0;
  }
  return bytes;
}

RunConfig with_ranks(RunConfig config, int64_t ranks) {
  config.launch.ranks = ranks;
  config.launch.memory_limit = 0;
  config.train.train_batch_size =
      config.train.micro_batch_size * config.train.gradient_accumulation_steps * ranks;
  return config;
}

Prediction predict(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                   const Machine& machine) {
  if (largest_tensor(config, vocab_size) >= kMostElements) {
    throw ConfigError(
        "plan",
        fmt::format("a micro-batch of {} x {} tokens has a tensor of 2^55 elements or more; lower "
                    "train.micro_batch_size or model.block_size",
                    config.train.micro_batch_size, config.model.block_size));
  }
  DryRun dry(config, vocab_size, 0, imitated, machine.speed, machine.link);
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

Largest largest_micro_batch(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                            const Machine& machine) {
  RunConfig scaled = config;
  scaled.train.micro_batch_size = 1;
  const auto limit = static_cast<int64_t>(kMostElements / largest_tensor(scaled, vocab_size));
  return largest(scaled, vocab_size, imitated, machine, std::min(limit, kMostSamples),
                 scaled.train.micro_batch_size);
}

Largest largest_model(const RunConfig& config, int64_t vocab_size, const Backend& imitated,
                      const Machine& machine) {
  RunConfig scaled = config;
  return largest(scaled, vocab_size, imitated, machine, kMostLayers, scaled.model.n_layer);
}

int64_t largest_that_fits(const std::function<int64_t(int64_t x)>& bytes, int64_t memory,
                          int64_t limit) {
  constexpr int kProbesOnLine = 16;  // then bytes is no line, and halves are safer
  int64_t fits = 0;
  int64_t too_large = limit + 1;
  int64_t last = 0;
  int64_t last_bytes = 0;
  int64_t x = 1;
  for (int probe = 0; too_large - fits > 1; ++probe) {
    const int64_t needed = bytes(x);
    (needed <= memory ? fits : too_large) = x;
    const double slope = static_cast<double>(needed - last_bytes) / static_cast<double>(x - last);
    double next = static_cast<double>(fits + (too_large - fits) / 2);
    if (probe == 0) {
      next = 2.0;
    } else if (probe < kProbesOnLine && slope > 0.0) {
      next = static_cast<double>(x) + std::floor(static_cast<double>(memory - needed) / slope);
    }
    last = x;
    last_bytes = needed;
    x = static_cast<int64_t>(std::clamp(next, static_cast<double>(fits + 1),
                                        static_cast<double>(std::max(fits + 1, too_large - 1))));
  }
  return fits;
}

}  // namespace zerolab::app
