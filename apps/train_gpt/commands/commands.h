#pragma once

#include <atomic>
#include <filesystem>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/inference/generate.h"
#include "apps/train_gpt/inference/saved_model.h"
#include "apps/train_gpt/training/training_run.h"

namespace zerolab::app {

struct SampleCommand {
  std::string prompt;  ///< "-": what `stdin` has
  GenerateOptions generate;
};

/// Ends with an error that tells where the configuration asks for more memory than there is, before
/// anything is written. Returns the predicted bytes of rank 0 by category.
MemoryLedger::Snapshot require_fits(const RunConfig& config, int64_t vocab_size);

/// One run with its log and its progress on `stdout`; the summary line ends both. If a trace cannot
/// be written, `stderr` says so; that fails the command, but harms no run.
RunSummary run_logged(const RunConfig& config, const TrainingData& data,
                      const std::atomic<bool>& stop,
                      const checkpoint::Checkpoint* resume = nullptr);

/// `train-gpt train`: returns the exit status.
int train_command(const RunConfig& config, const std::atomic<bool>& stop);

/// `train-gpt train --resume`: goes on from a checkpoint (resume.h); without a `file` with the
/// configuration that it holds.
int resume_command(const std::string& resume, const std::string& file,
                   const std::vector<std::string>& overrides, const std::atomic<bool>& stop);

/// `train-gpt checkpoint`: reads all of one and finds what is damaged; prints what one holds;
/// prints a line for each of a run. They load no model.
void verify_checkpoint(const std::filesystem::path& path);
void show_checkpoint(const std::filesystem::path& path);
void list_checkpoints(const std::filesystem::path& path);

/// `train-gpt compare`: a run under each of `configs`, which are variants of `config`
/// (compare_variants.h); prints one table and writes it as <out_dir>/<name>/compare.json of
/// `config`, and the runs' report beside it.
int compare_command(const RunConfig& config, const std::vector<RunConfig>& configs,
                    const std::atomic<bool>& stop);

/// `train-gpt report`: writes what the logs of `runs` (folders or metrics.jsonl) say as one HTML
/// file, and prints its path.
void write_report(const std::vector<std::filesystem::path>& runs,
                  const std::filesystem::path& page);

/// `train-gpt sample`: prints the prompt and its continuation, each character as soon as it is
/// made, on `stdout`; beside it, on `stderr`, how fast. Ends quietly where nobody reads on.
void sample_command(const SavedModel::Source& source, const SampleCommand& command);

/// `train-gpt eval`: prints the mean loss over all tokens of `files`, one after the other.
void eval_command(const SavedModel::Source& source, const std::vector<std::string>& files);

/// `train-gpt export`: writes the weights of `run`'s newest checkpoint, or of the checkpoint that
/// it is, for transformers: to the file `output` if its name ends in ".safetensors", else, with a
/// config.json, into the folder `output`. `dtype`: "fp32" or "bf16". Prints what it wrote.
void export_command(const std::filesystem::path& run, const std::filesystem::path& output,
                    const std::string& dtype);

/// `train-gpt devices`: prints what `launch.device` can name on this machine.
void devices_command();

}  // namespace zerolab::app
