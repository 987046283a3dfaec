#include "apps/train_gpt/setup/engine_options.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

#include "apps/train_gpt/config/config_table.h"
#include "apps/train_gpt/config/refuse.h"
#include "framework/core/hash.h"

namespace zerolab::app {
namespace {

/// The type that a key names; none for "auto".
std::optional<DType> dtype_of(std::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    if (name_of(dtype) == name) {
      return dtype;
    }
  }
  return std::nullopt;
}

/// Where `word` stands in `text` by itself; npos: nowhere.
size_t find_word(std::string_view text, std::string_view word) {
  const auto is_letter = [&](size_t at) {
    return at < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  size_t at = text.find(word);
  while (at != std::string_view::npos &&
         ((at > 0 && is_letter(at - 1)) || is_letter(at + word.size()))) {
    at = text.find(word, at + 1);
  }
  return at;
}

/// Where the key stands that `reason` names first, of those that were set.
std::string place_of(const RunConfig& config, std::string_view reason) {
  std::string place = config.source;
  size_t first = std::string_view::npos;
  for (const Entry& entry : config_table()) {
    const auto set = config.set_at.find(entry.name());
    const size_t at = find_word(reason, entry.key);
    if (set != config.set_at.end() && at < first) {
      first = at;
      place = set->second;
    }
  }
  return place;
}

void require_engine_can(const RunConfig& config, const std::string& place_of_stage) {
  try {
    zero::StagePlan(engine_options(config), parameter_dtype(config));
  } catch (const ConfigError& error) {
    refuse(place_of_stage.empty() ? place_of(config, error.what()) : place_of_stage, "{}",
           error.what());
  }
}

}  // namespace

DType parameter_dtype(const RunConfig& config) {
  return config.train.precision == "tf32" ? DType::kFloat32 : *dtype_of(config.train.precision);
}

GptConfig gpt_config(const RunConfig& config, int64_t vocab_size) {
  return {.n_layer = config.model.n_layer,
          .n_head = config.model.n_head,
          .n_embd = config.model.n_embd,
          .block_size = config.model.block_size,
          .vocab_size = vocab_size,
          .bias = config.model.bias,
          .dropout = config.model.dropout,
          .tie_weights = config.model.tie_weights};
}

zero::EngineOptions engine_options(const RunConfig& config) {
  const ZeroSection& zero = config.zero;
  return {.stage = static_cast<int>(zero.stage),
          .layout = zero.layout == "contiguous" ? zero::LayoutKind::kContiguous
                                                : zero::LayoutKind::kBucketed,
          .reduce_scatter = zero.reduce_scatter,
          .reduce_bucket_size = zero.reduce_bucket_size,
          .allgather_bucket_size = zero.allgather_bucket_size,
          .contiguous_gradients = zero.contiguous_gradients,
          .overlap_comm = zero.overlap_comm,
          .prescale_gradients = zero.prescale_gradients,
          .gradient_predivide_factor = zero.gradient_predivide_factor,
          .communication_dtype = dtype_of(zero.communication_dtype),
          .gradient_accumulation_dtype = dtype_of(zero.gradient_accumulation_dtype),
          .reduce_each_micro_batch = zero.reduce_each_micro_batch,
          .gradient_accumulation_steps = static_cast<int>(config.train.gradient_accumulation_steps),
          .gradient_clipping = config.optimizer.gradient_clipping,
          .max_skipped_steps = static_cast<int>(config.train.max_skipped_steps),
          .loss_scale = {.dynamic = config.loss_scale.mode == "dynamic",
                         .initial = config.loss_scale.initial,
                         .window = static_cast<int>(config.loss_scale.window),
                         .hysteresis = static_cast<int>(config.loss_scale.hysteresis),
                         .minimum = config.loss_scale.min}};
}

uint64_t configuration_hash(const RunConfig& config) { return hash_of(dump_toml(config)); }

zero::DebugOptions debug_options(const RunConfig& config) {
  return {.poison = config.debug.poison, .hash_every = config.debug.hash_every};
}

void require_engine_can(const RunConfig& config) {
  require_engine_can(config, "");
  for (size_t i = 0; i < config.zero.schedule.size(); ++i) {
    RunConfig later = config;
    later.zero.stage = config.zero.schedule[i].stage;
    require_engine_can(later, config.set_at.at(fmt::format("zero.schedule[{}]", i)));
  }
}

}  // namespace zerolab::app
