#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "checkpoint/folder.h"
#include "checkpoint/gpt2_export.h"

namespace zerolab::app {
namespace {

/// Writes the weights of `run`'s newest checkpoint, or of the checkpoint that it is, for
/// transformers: to the file `output` if its name ends in ".safetensors", else, with a config.json,
/// into the folder `output`. `dtype`: "fp32" or "bf16".
void export_checkpoint(const std::filesystem::path& run, const std::filesystem::path& output,
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

}  // namespace

Command add_export(CLI::App& program) {
  struct Options {
    std::filesystem::path checkpoint;
    std::filesystem::path output;
    std::string dtype = "fp32";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand(
      "export", "Write a checkpoint's weights for Hugging Face's transformers");
  line->add_option("CHECKPOINT", options->checkpoint, "A run's folder, or a checkpoint's")
      ->required();
  line->add_option("-o,--output", options->output,
                   "A file.safetensors, or a folder for from_pretrained: model.safetensors and "
                   "config.json")
      ->required();
  line->add_option("--dtype", options->dtype, "Type of the elements")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  return {line, [options] {
            export_checkpoint(options->checkpoint, options->output, options->dtype);
            return 0;
          }};
}

}  // namespace zerolab::app
