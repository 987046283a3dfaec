#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/text/format.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "framework/core/error.h"
#include "zero/options.h"

namespace zerolab::app {
namespace {

int64_t bytes_of(const checkpoint::Manifest& manifest) {
  int64_t bytes = 0;
  for (const checkpoint::PartInfo& file : manifest.files) {
    bytes += file.bytes;
  }
  return bytes;
}

std::string summary_of(const checkpoint::Checkpoint& saved) {
  const checkpoint::TrainState& state = saved.manifest().state;
  return fmt::format("{}: step {}, {} tokens, {}, N = {}, {}, {} in {} file(s)",
                     saved.folder().string(), state.step, format_count(state.tokens),
                     zero::name_of_stage(static_cast<int>(state.stage)), state.world_size,
                     state.precision, format_bytes(bytes_of(saved.manifest())),
                     saved.manifest().files.size());
}

void verify_checkpoint(const std::filesystem::path& path) {
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(path));
  checkpoint::verify(saved);
  fmt::print("{}\nevery byte is as it was written\n", summary_of(saved));
}

void show_checkpoint(const std::filesystem::path& path) {
  const checkpoint::Checkpoint saved(checkpoint::find_checkpoint(path));
  const checkpoint::Manifest& manifest = saved.manifest();
  const zero::EngineState& engine = manifest.state.engine;
  fmt::print("{}\nupdates {}, samples {}, loss scale {}, {} layout, buckets of {} elements\n\n",
             summary_of(saved), engine.updates, manifest.state.samples, engine.loss_scale.scale,
             manifest.state.layout, manifest.state.bucket_size);
  int64_t num_params = 0;
  for (const checkpoint::ParameterInfo& parameter : manifest.parameters) {
    fmt::print("{:<40} [{}]{}\n", parameter.name, fmt::join(parameter.shape, ", "),
               parameter.frozen ? " frozen" : "");
    num_params += parameter.numel();
  }
  fmt::print("{} parameters, each with {}\n\n{}", num_params, fmt::join(manifest.tensors, ", "),
             manifest.state.config);
}

void list_checkpoints(const std::filesystem::path& path) {
  checkpoint::Folder folder(path / checkpoint::kFolderName);
  if (folder.steps().empty()) {
    folder = checkpoint::Folder(path);
  }
  if (folder.steps().empty()) {
    fmt::print("{}\n", summary_of(checkpoint::Checkpoint(checkpoint::find_checkpoint(path))));
    return;
  }
  for (const int64_t step : folder.steps()) {
    try {
      fmt::print("{}\n", summary_of(checkpoint::Checkpoint(folder.of_step(step))));
    } catch (const Error& error) {
      fmt::print("{}: {}\n", folder.of_step(step).string(), error.what());
    }
  }
}

}  // namespace

Command add_checkpoint(CLI::App& program) {
  const auto path = std::make_shared<std::filesystem::path>();
  CLI::App* line = program.add_subcommand(
      "checkpoint", "Look at checkpoints: of a run's folder, or one by its path");
  line->require_subcommand(1);
  const auto add = [&](const std::string& name, const std::string& help) {
    CLI::App* const look = line->add_subcommand(name, help);
    look->add_option("PATH", *path, "A run's folder, or a checkpoint's")->required();
    return look;
  };
  CLI::App* verify = add("verify", "Read all of the newest, and find what is damaged");
  CLI::App* show = add("show", "Print what the newest holds, and its configuration");
  add("list", "Print a line for each");
  return {line, [path, verify, show] {
            (*verify ? verify_checkpoint : *show ? show_checkpoint : list_checkpoints)(*path);
            return 0;
          }};
}

}  // namespace zerolab::app
