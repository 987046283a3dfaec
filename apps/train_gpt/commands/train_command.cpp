#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/commands/logged_run.h"
#include "apps/train_gpt/commands/shared_options.h"
#include "apps/train_gpt/commands/stop_signals.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "apps/train_gpt/training/resume.h"

namespace zerolab::app {
namespace {

int status_of(const RunSummary& summary) {
  return summary.trace_error.empty() && summary.checkpoint_error.empty() ? 0 : 1;
}

int train(const RunConfig& config, const std::atomic<bool>& stop) {
  const TrainingData data = load_training_data(config);
  require_fits(config, data.vocab_size);
  return status_of(run_logged(config, data, stop));
}

/// Goes on from a checkpoint (resume.h); without a `file` with the configuration that it holds.
int resume_training(const std::string& resume, const std::string& file,
                    const std::vector<std::string>& overrides, const std::atomic<bool>& stop) {
  RunConfig config;
  if (!file.empty()) {
    config = load_config(file, overrides);
  }
  const checkpoint::Checkpoint saved(find_resume(resume, file.empty() ? nullptr : &config));
  if (file.empty()) {
    config = resumed_config(saved.manifest().state, overrides);
  }
  const TrainingData data = load_training_data(config);
  prepare_resume(config, data, saved);
  require_fits(config, data.vocab_size);
  return status_of(run_logged(config, data, stop, &saved));
}

}  // namespace

Command add_train(CLI::App& program) {
  struct Options {
    ConfigOptions config;
    std::string resume;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand("train", "Train one run");
  add_config(*line, options->config)->required(false);  // a checkpoint has its own
  line->add_option("--resume", options->resume,
                   "Go on from a checkpoint: \"latest\" of the run that CONFIG names, or a path; "
                   "without CONFIG with the configuration that the checkpoint holds");
  line->callback([options] {
    if (options->config.file.empty() && options->resume.empty()) {
      throw CLI::RequiredError("CONFIG (or --resume)");
    }
  });
  return {line, [options] {
            const std::atomic<bool>& stop = stop_on_signals();
            const auto& [file, overrides] = options->config;
            return options->resume.empty()
                       ? train(load_config(file, overrides), stop)
                       : resume_training(options->resume, file, overrides, stop);
          }};
}

}  // namespace zerolab::app
