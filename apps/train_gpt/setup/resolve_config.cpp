#include "apps/train_gpt/setup/resolve_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/train_gpt/config/config_check.h"
#include "apps/train_gpt/config/refuse.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "apps/train_gpt/setup/input_files.h"
#include "apps/train_gpt/setup/launch.h"
#include "optim/loss_scaler.h"

namespace zerolab::app {
namespace {

constexpr int64_t kDefaultMicroBatchSize = 8;

/// `train_batch_size / divisor`, or a refusal that shows the numbers.
int64_t divide_batch(const RunConfig& config, int64_t divisor, const std::string& divisor_text) {
  const int64_t total = config.train.train_batch_size;
  if (total % divisor != 0) {
    const int64_t below = total / divisor * divisor;
    refuse(config, "train.train_batch_size",
           "train.train_batch_size does not divide; got {}, expected a multiple of {} = {}; try {}",
           total, divisor_text, divisor, below > 0 ? below : divisor);
  }
  return total / divisor;
}

/// train = micro x k x N, where 0 stands for a number that the others give.
void resolve_batch_sizes(RunConfig& config) {
  const int64_t ranks = config.launch.ranks;
  int64_t& train = config.train.train_batch_size;
  int64_t& micro = config.train.micro_batch_size;
  int64_t& accumulation = config.train.gradient_accumulation_steps;

  if (train > 0 && micro > 0 && accumulation == 0) {
    accumulation = divide_batch(config, micro * ranks,
                                fmt::format("micro_batch_size {} x ranks {}", micro, ranks));
  }
  accumulation = std::max<int64_t>(accumulation, 1);
  if (train > 0 && micro == 0) {
    micro =
        divide_batch(config, accumulation * ranks,
                     fmt::format("gradient_accumulation_steps {} x ranks {}", accumulation, ranks));
  }
  if (micro == 0) {
    micro = kDefaultMicroBatchSize;
  }
  const int64_t product = micro * accumulation * ranks;
  if (train > 0 && train != product) {
    refuse(config, "train.train_batch_size",
           "train.train_batch_size contradicts its factors; got {}, expected micro_batch_size {} x "
           "gradient_accumulation_steps {} x ranks {} = {}; leave one of them out",
           train, micro, accumulation, ranks, product);
  }
  train = product;
}

void resolve_loss_scale(RunConfig& config) {
  LossScaleSection& scale = config.loss_scale;
  const bool fp32 = parameter_dtype(config) == DType::kFloat32;
  if (scale.mode == "auto") {
    scale.mode = config.train.precision == "fp16" ? "dynamic" : "static";
  }
  const bool dynamic = scale.mode == "dynamic";
  if (dynamic && fp32) {
    refuse(config, "loss_scale.mode",
           "loss_scale.mode; got \"dynamic\" with train.precision \"{}\", expected \"static\" or "
           "\"auto\": an overflow in fp32 is a fault that a smaller scale would hide",
           config.train.precision);
  }
  if (scale.initial == 0.0) {
    scale.initial = dynamic ? optim::dynamic_loss_scale().initial : 1.0;
  }
  if (dynamic && scale.min > scale.initial) {
    refuse(config, "loss_scale.min", "loss_scale.min; got {}, expected at most initial {}",
           scale.min, scale.initial);
  }
}

RunConfig inference_part(const RunConfig& config) {
  RunConfig part;
  part.model = config.model;
  part.data = config.data;
  if (config.data.tokenizer != "char") {
    part.data.path.clear();
  }
  part.launch = config.launch;
  part.launch.ranks = 1;
  part.train.precision = config.train.precision;
  part.train.micro_batch_size = config.train.micro_batch_size;
  part.source = config.source;
  part.set_at = config.set_at;
  return part;
}

}  // namespace

void resolve(RunConfig& config, const std::filesystem::path& file, ConfigUse use) {
  if (use == ConfigUse::kInference) {
    config = inference_part(config);
  }
  check_sections(config);
  resolve_batch_sizes(config);
  resolve_loss_scale(config);
  require_engine_can(config);
  resolve_launch(config);
  if (use == ConfigUse::kPlan) {
    config.model.init_from.clear();
    if (config.model.vocab_size > 0) {
      return;
    }
    if (config.data.path.empty()) {
      refuse(config, "model.vocab_size",
             "model.vocab_size; got 0, expected the number of tokens, or data.path, whose text "
             "tells it");
    }
  }
  if (config.data.path.empty() && use != ConfigUse::kInference) {
    refuse(config, "data.path",
           "data.path is not set; expected text files or .bin shards; try --set data.path=FILE");
  }
  find_inputs(config, file.parent_path());
}

RunConfig load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                      ConfigUse use) {
  RunConfig config = read_config(file);
  for (const std::string& assignment : overrides) {
    apply_override(config, assignment);
  }
  resolve(config, file, use);
  return config;
}

}  // namespace zerolab::app
