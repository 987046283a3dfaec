#include "apps/train_gpt/make_model.h"

#include "apps/train_gpt/engine_options.h"
#include "framework/core/error.h"
#include "models/safetensors.h"

namespace zerolab::app {
namespace {

void read_initial_weights(const RunConfig& config, const Gpt& model) {
  try {
    load_weights(config.model.init_from, model.parameters());
  } catch (const Error& error) {
    throw ConfigError("config", fmt::format("{}: model.init_from does not fit the model: {}",
                                            config.place_of("model.init_from"), error.what()));
  }
}

}  // namespace

std::unique_ptr<Gpt> make_model(const RunConfig& config, RankContext& context, int64_t vocab_size) {
  const nn::Scope scope{.context = context,
                        .seed = static_cast<uint64_t>(config.run.seed),
                        .dtype = parameter_dtype(config),
                        .name = ""};
  auto model = std::make_unique<Gpt>(scope, GptConfig{.n_layer = config.model.n_layer,
                                                      .n_head = config.model.n_head,
                                                      .n_embd = config.model.n_embd,
                                                      .block_size = config.model.block_size,
                                                      .vocab_size = vocab_size,
                                                      .bias = config.model.bias,
                                                      .dropout = config.model.dropout,
                                                      .tie_weights = config.model.tie_weights});
  if (!config.model.init_from.empty()) {
    read_initial_weights(config, *model);
  }
  return model;
}

}  // namespace zerolab::app
