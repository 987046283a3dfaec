#include <fmt/core.h>

#include "apps/train_gpt/commands/commands.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "checkpoint/folder.h"
#include "checkpoint/gpt2_export.h"

namespace zerolab::app {

void export_command(const std::filesystem::path& run, const std::filesystem::path& output,
                    const std::string& dtype) {
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(run));
  const DType type = dtype == "bf16" ? DType::kBFloat16 : DType::kFloat32;
  if (output.extension() == ".safetensors") {
    checkpoint::export_weights(saved, type, output);
  } else {
    const std::filesystem::path manifest = saved.folder() / checkpoint::kManifestName;
    const RunConfig config = parse_config(saved.manifest().state.config, manifest.string());
    checkpoint::export_model(saved, gpt_config(config, config.model.vocab_size), type, output);
  }
  fmt::print("the weights of '{}' are in '{}' ({})\n", saved.folder().string(), output.string(),
             dtype);
}

}  // namespace zerolab::app
