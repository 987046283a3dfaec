#include "apps/train_gpt/setup/resolve_config.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <utility>

#include "apps/train_gpt/config/listen_address.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "apps/train_gpt/setup/launch.h"
#include "framework/core/error.h"
#include "optim/loss_scaler.h"

namespace zerolab::app {
namespace {

constexpr int64_t kDefaultMicroBatchSize = 8;

/// Refuses with the place where `key` was set, or the file if it has its default.
template <typename... Args>
[[noreturn]] void refuse(const RunConfig& config, const std::string& key,
                         fmt::format_string<Args...> format, Args&&... args) {
  throw ConfigError("config", fmt::format("{}: {}", config.place_of(key),
                                          fmt::format(format, std::forward<Args>(args)...)));
}

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

/// The files that `pattern`, a path or a glob, names; sorted. A name of its own may be a folder.
std::vector<std::string> matches(const std::filesystem::path& pattern) {
  if (std::filesystem::exists(pattern)) {
    return {pattern.string()};
  }
  std::vector<std::string> files;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  std::erase_if(files, [](const std::string& file) { return std::filesystem::is_directory(file); });
  return files;
}

/// Absolute names, so that the dumped configuration runs from any folder.
std::vector<std::string> find_input(const RunConfig& config, const std::string& key,
                                    const std::filesystem::path& folder,
                                    const std::string& pattern) {
  const std::filesystem::path working = std::filesystem::current_path();
  for (const std::filesystem::path& base : {working / folder, working}) {
    std::vector<std::string> files = matches((base / pattern).lexically_normal());
    if (!files.empty()) {
      return files;
    }
  }
  refuse(config, key, "{} names no file; got \"{}\", expected a file in \"{}\" or \"{}\"", key,
         pattern, (working / folder).lexically_normal().string(), working.string());
}

void resolve_inputs(RunConfig& config, const std::filesystem::path& folder, ConfigUse use) {
  if (config.data.path.empty() && use != ConfigUse::kInference) {
    refuse(config, "data.path",
           "data.path is not set; expected text files or .bin shards; try --set data.path=FILE");
  }
  std::vector<std::string> files;
  for (const std::string& pattern : config.data.path) {
    const std::vector<std::string> found = find_input(config, "data.path", folder, pattern);
    files.insert(files.end(), found.begin(), found.end());
  }
  config.data.path = files;
  if (!config.data.vocab.empty()) {
    config.data.vocab = find_input(config, "data.vocab", folder, config.data.vocab).front();
  }
  std::string& init_from = config.model.init_from;
  if (!init_from.empty()) {
    init_from = find_input(config, "model.init_from", folder, init_from).front();
  }
}

void check(const RunConfig& config) {
  const std::string& name = config.run.name;
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    refuse(config, "run.name", "run.name; got \"{}\", expected the name of one folder", name);
  }
  if (config.run.eval_every > 0 && config.data.val_fraction == 0) {
    refuse(config, "run.eval_every",
           "run.eval_every needs a validation split; got data.val_fraction 0, expected > 0");
  }
  if ((config.data.tokenizer == "gpt2") != !config.data.vocab.empty()) {
    refuse(config, config.data.vocab.empty() ? "data.tokenizer" : "data.vocab",
           "data.tokenizer \"gpt2\" and data.vocab need each other; got tokenizer \"{}\" and vocab "
           "\"{}\", expected the folder with GPT-2's encoder.json and vocab.bpe, or neither",
           config.data.tokenizer, config.data.vocab);
  }
  if (config.model.n_embd % config.model.n_head != 0) {
    refuse(config, "model.n_embd",
           "model.n_embd does not divide into heads; got {}, expected a multiple of n_head {}",
           config.model.n_embd, config.model.n_head);
  }
  if (config.optimizer.name != "sgd" && config.optimizer.momentum != 0) {
    refuse(config, "optimizer.momentum",
           "optimizer.momentum is sgd's; got {0} with {1}, expected 0; {1} has betas",
           config.optimizer.momentum, config.optimizer.name);
  }
  if (config.schedule.warmup_steps > config.run.steps) {
    refuse(config, "schedule.warmup_steps",
           "schedule.warmup_steps; got {}, expected at most run.steps {}",
           config.schedule.warmup_steps, config.run.steps);
  }
  if (config.log.trace && config.log.trace_first_step > config.run.steps) {
    refuse(config, "log.trace_first_step",
           "log.trace_first_step; got {}, expected at most run.steps {}",
           config.log.trace_first_step, config.run.steps);
  }
  if (!config.log.dashboard.empty()) {
    if (!parse_listen_address(config.log.dashboard).has_value()) {
      refuse(config, "log.dashboard",
             "log.dashboard; got \"{}\", expected a port or HOST:PORT, such as \"8080\" or "
             "\"127.0.0.1:8080\"",
             config.log.dashboard);
    }
    if (!config.log.metrics) {
      refuse(config, "log.dashboard",
             "log.dashboard shows what is logged; got log.metrics false, expected true");
    }
  }
  for (size_t i = 0; i < config.zero.schedule.size(); ++i) {
    if (config.zero.schedule[i].step > config.run.steps) {
      refuse(config, fmt::format("zero.schedule[{}]", i),
             "zero.schedule.step; got {}, expected at most run.steps {}",
             config.zero.schedule[i].step, config.run.steps);
    }
  }
  if (config.schedule.name != "constant" && config.schedule.min_lr > config.optimizer.lr) {
    refuse(config, "schedule.min_lr", "schedule.min_lr; got {}, expected at most optimizer.lr {}",
           config.schedule.min_lr, config.optimizer.lr);
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
  check(config);
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
  resolve_inputs(config, file.parent_path(), use);
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
