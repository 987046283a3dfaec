#include "apps/train_gpt/training/resume.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/train_gpt/setup/resolve_config.h"
#include "checkpoint/folder.h"
#include "framework/core/error.h"
#include "zero/options.h"

namespace zerolab::app {
namespace {

/// Keys that change no bit of what follows, whatever they are set to.
bool changes_no_bits(const std::string& key, const RunConfig& config) {
  for (const std::string_view section : {"log.", "checkpoint.", "debug.", "comm."}) {
    if (key.starts_with(section)) {
      return true;
    }
  }
  static const std::vector<std::string> kAlways = {"run.name",
                                                   "run.out_dir",
                                                   "run.eval_every",
                                                   "run.eval_batches",
                                                   "run.log_every",
                                                   "launch.memory_limit",
                                                   "model.init_from",
                                                   "zero.layout",
                                                   "zero.overlap_comm",
                                                   "zero.schedule",
                                                   "zero.reduce_bucket_size",
                                                   "zero.allgather_bucket_size",
                                                   "zero.contiguous_gradients"};
  static const std::vector<std::string> kOneOrder = {"zero.stage", "zero.reduce_scatter"};
  const auto is_in = [&](const std::vector<std::string>& keys) {
    return std::ranges::find(keys, key) != keys.end();
  };
  // docs/design.md 6: with several micro-batches the stages add in another order, unless told not
  // to.
  const bool one_order =
      config.train.gradient_accumulation_steps == 1 || config.zero.reduce_each_micro_batch;
  // The schedule's end is the last step, unless the rate is constant.
  return is_in(kAlways) || (one_order && is_in(kOneOrder)) ||
         (key == "run.steps" && config.schedule.name == "constant");
}

}  // namespace

std::filesystem::path find_resume(const std::string& resume, const RunConfig* config) {
  if (resume != "latest") {
    return checkpoint::find_checkpoint(resume);
  }
  if (config != nullptr) {
    return checkpoint::find_checkpoint(std::filesystem::path(config->run.out_dir) /
                                       config->run.name);
  }
  const std::filesystem::path runs = RunConfig().run.out_dir;
  std::filesystem::path newest;
  std::filesystem::file_time_type newest_time;
  std::error_code error;
  for (const auto& run : std::filesystem::directory_iterator(runs, error)) {
    const std::filesystem::path latest = run.path() / checkpoint::kFolderName / "latest";
    const auto time = std::filesystem::last_write_time(latest / checkpoint::kManifestName, error);
    if (!error && (newest.empty() || time > newest_time)) {
      newest = run.path();
      newest_time = time;
    }
  }
  require(!newest.empty(), "resume",
          "there is no checkpoint of any run in '{}'; name a CONFIG.toml, or the checkpoint's path",
          std::filesystem::absolute(runs).string());
  return checkpoint::find_checkpoint(newest);
}

RunConfig resumed_config(const checkpoint::TrainState& state,
                         const std::vector<std::string>& overrides) {
  RunConfig config = parse_config(state.config, "the checkpoint's configuration");
  const RunConfig saved = config;
  for (const std::string& override : overrides) {
    apply_override(config, override);
  }
  if (config.launch.ranks != saved.launch.ranks) {
    const auto anew = [&](int64_t& value, int64_t saved_value) {
      value = value == saved_value ? 0 : value;
    };
    anew(config.train.micro_batch_size, saved.train.micro_batch_size);
    anew(config.launch.threads_per_rank, saved.launch.threads_per_rank);
    anew(config.launch.memory_limit, saved.launch.memory_limit);
  }
  if (config.train.precision != saved.train.precision) {
    config.loss_scale = LossScaleSection();
  }
  resolve(config);
  return config;
}

void prepare_resume(RunConfig& config, const TrainingData& data,
                    const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::TrainState& state = checkpoint.manifest().state;
  const auto refuse = [&](const std::string& key, const std::string& text) {
    throw ConfigError("resume", fmt::format("{}: {}", config.place_of(key), text));
  };
  if (state.step >= config.run.steps) {
    refuse("run.steps", fmt::format("no step is left; got run.steps {}, and the checkpoint is of "
                                    "step {}; raise run.steps to train on",
                                    config.run.steps, state.step));
  }
  if (state.samples != state.step * config.train.train_batch_size) {
    refuse("train.train_batch_size",
           fmt::format("train.train_batch_size must stay, so that the data go on where they were; "
                       "got {}, expected {}",
                       config.train.train_batch_size,
                       state.samples / std::max<int64_t>(state.step, 1)));
  }
  if (state.vocabulary != data.vocabulary) {
    refuse("data.path",
           "the text has other characters than the one that was trained on, so that "
           "tokens mean others; resume on the same text");
  }
  for (const StageSwitch& change : config.zero.schedule) {
    if (change.step <= state.step) {
      config.zero.stage = change.stage;
    }
  }
}

std::string resume_note(const RunConfig& config, const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::TrainState& state = checkpoint.manifest().state;
  const nlohmann::json now = to_json(config);
  const nlohmann::json then = to_json(parse_config(state.config, "the checkpoint's configuration"));
  std::vector<std::string> changed;
  for (const auto& [key, value] : now.items()) {
    const bool sized = key == "model.vocab_size";  // 0 may stand for what was saved
    if (!sized && then.value(key, nlohmann::json()) != value && !changes_no_bits(key, config)) {
      changed.push_back(
          fmt::format("{} {} -> {}", key, then.value(key, nlohmann::json()).dump(), value.dump()));
    }
  }
  const std::string from =
      fmt::format("resumed from {} (step {}, {}, N = {})", checkpoint.folder().string(), state.step,
                  zero::name_of_stage(static_cast<int>(state.stage)), state.world_size);
  return changed.empty()
             ? from + ": the same bits as a run that never stopped"
             : fmt::format("{}; not the bits of a run that never stopped, since these changed: {}",
                           from, fmt::join(changed, ", "));
}

}  // namespace zerolab::app
