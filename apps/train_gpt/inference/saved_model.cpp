#include "apps/train_gpt/inference/saved_model.h"

#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/setup/make_model.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "apps/train_gpt/setup/run_tokenizer.h"
#include "checkpoint/folder.h"
#include "checkpoint/snapshot.h"
#include "data/corpus.h"
#include "framework/core/error.h"
#include "framework/tensor/backend.h"

namespace zerolab::app {
namespace {

/// A saved configuration without what belongs to the machine that it was saved on.
RunConfig inference_config(const RunConfig& saved, const std::vector<std::string>& overrides) {
  RunConfig config = saved;
  config.set_at.clear();
  config.data.path.clear();
  config.model.init_from.clear();
  config.launch = {.backend = saved.launch.backend};
  for (const std::string& assignment : overrides) {
    apply_override(config, assignment);
  }
  resolve(config, {}, ConfigUse::kInference);
  return config;
}

bool trained_on_shards(const RunConfig& saved) {
  return !saved.data.path.empty() && saved.data.path.front().ends_with(".bin");
}

}  // namespace

SavedModel::~SavedModel() = default;

SavedModel::SavedModel(const Source& source) {
  std::unique_ptr<const checkpoint::Checkpoint> saved;
  if (source.config.empty()) {
    saved =
        std::make_unique<checkpoint::Checkpoint>(checkpoint::find_checkpoint(source.checkpoint));
    const checkpoint::TrainState& state = saved->manifest().state;
    const RunConfig run = parse_config(state.config, saved->folder().string());
    config_ = inference_config(run, source.overrides);
    const std::string_view vocabulary = state.vocabulary;
    tokenizer_ = trained_on_shards(run) ? tokenizer_of_shards(config_)
                                        : tokenizer_of(config_, std::span(&vocabulary, 1));
  } else {
    config_ = load_config(source.config, source.overrides, ConfigUse::kInference);
    if (config_.model.init_from.empty()) {
      throw ConfigError("config",
                        fmt::format("{}: model.init_from is not set; expected the file with the "
                                    "model's weights, or --checkpoint instead of --config",
                                    config_.source));
    }
    tokenizer_ = config_.data.path.empty()
                     ? tokenizer_of(config_, {})
                     : tokenizer_of(config_, data::Corpus(config_.data.path).texts());
  }
  config_.model.vocab_size = vocab_size_of(config_, *tokenizer_);
  backend_ = make_backend(config_);
  context_ = std::make_unique<RankContext>(rank_options(config_, 0), *backend_);
  model_ = make_model(config_, *context_, config_.model.vocab_size);
  if (saved != nullptr) {
    checkpoint::restore_weights(*saved, model_->parameters());
  }
}

}  // namespace zerolab::app
