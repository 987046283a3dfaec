#include "apps/train_gpt/setup/make_model.h"

#include "apps/train_gpt/config/refuse.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "models/weights.h"

namespace zerolab::app {
namespace {

void read_initial_weights(const RunConfig& config, const Gpt& model) {
  try {
    load_weights(config.model.init_from, model.parameters(), model.config().n_head);
  } catch (const Error& error) {
    refuse(config, "model.init_from", "model.init_from does not fit the model: {}", error.what());
  }
}

}  // namespace

std::unique_ptr<Gpt> make_model(const RunConfig& config, RankContext& context, int64_t vocab_size) {
  const nn::Scope scope{.context = context,
                        .seed = static_cast<uint64_t>(config.run.seed),
                        .dtype = parameter_dtype(config),
                        .name = ""};
  auto model = std::make_unique<Gpt>(scope, gpt_config(config, vocab_size));
  if (!config.model.init_from.empty()) {
    read_initial_weights(config, *model);
  }
  return model;
}

}  // namespace zerolab::app
