#include "apps/train_gpt/commands/logged_run.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/train_gpt/commands/run_logging.h"
#include "apps/train_gpt/training/dry_run.h"
#include "checkpoint/folder.h"
#include "checkpoint/writer.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

/// Null: the configuration asks for no checkpoints. A new run must not drop those of an older one.
std::unique_ptr<checkpoint::Writer> make_writer(const RunConfig& config,
                                                const std::filesystem::path& run_folder,
                                                const checkpoint::Checkpoint* resume) {
  if (config.checkpoint.every == 0) {
    return nullptr;
  }
  const checkpoint::Folder folder(run_folder / checkpoint::kFolderName);
  if (resume == nullptr && !folder.steps().empty()) {
    throw ConfigError(
        "checkpoint",
        fmt::format("{}: '{}' holds checkpoints of an earlier run; --resume latest goes on with "
                    "it; or choose another run.name, or remove the folder",
                    config.place_of("checkpoint.every"), folder.path().string()));
  }
  return std::make_unique<checkpoint::Writer>(folder, static_cast<int>(config.launch.ranks),
                                              config.checkpoint.keep);
}

}  // namespace

MemoryLedger::Snapshot require_fits(const RunConfig& config, int64_t vocab_size) {
  try {
    return dry_run(config, vocab_size, 0);
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& error) {
    throw ConfigError(
        "config", fmt::format("{}: the model does not fit (nothing was allocated or written): {}",
                              config.place_of("launch.memory_limit"), error.what()));
  }
}

RunSummary run_logged(const RunConfig& config, const TrainingData& data,
                      const std::atomic<bool>& stop, const checkpoint::Checkpoint* resume) {
  const std::filesystem::path folder = std::filesystem::path(config.run.out_dir) / config.run.name;
  const std::unique_ptr<checkpoint::Writer> writer = make_writer(config, folder, resume);
  RunLogging logging(config, folder, resume);
  RunSummary summary = run_training(config, data, logging, stop, {resume, writer.get()});
  logging.finish(summary);
  if (!summary.checkpoint_error.empty()) {
    fmt::print(stderr, "error: the last checkpoint failed: {}\n", summary.checkpoint_error);
  }
  if (!summary.trace_error.empty()) {
    fmt::print(stderr, "error: {}\n", summary.trace_error);
  }
  return summary;
}

}  // namespace zerolab::app
