#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "apps/benchmark/checkpoint_command.h"
#include "apps/benchmark/overhead_command.h"
#include "apps/benchmark/overlap_command.h"
#include "apps/benchmark/ranks_command.h"
#include "apps/benchmark/step_command.h"
#include "apps/benchmark/tokens_command.h"
#include "framework/memory/allocator.h"
#include "framework/onednn/backend.h"

namespace {

using zerolab::GptConfig;

const std::map<std::string, GptConfig> kModels = {
    {"124M", {}},
    {"10M", {.n_layer = 6, .n_head = 6, .n_embd = 384, .block_size = 256, .vocab_size = 65}}};

/// An option that counts something.
void add_count(CLI::App* app, const std::string& name, auto& value, const std::string& help) {
  app->add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
}

void add_json(CLI::App* app, std::string& json) {
  app->add_option("--json", json, "Write the result to this file as well");
}

/// Of one rank, when the cores are shared out.
int threads_of(int cores, int ranks) { return std::max(1, cores / ranks); }

}  // namespace

int main(int argc, char** argv) {
  using namespace zerolab;
  keep_large_blocks();

  CLI::App program("benchmark: how fast zerolab trains, and against which limit.");
  program.require_subcommand(1);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));

  bench::StepCommand step;
  std::string model = "124M";
  CLI::App* step_app = program.add_subcommand(
      "step",
      "Full training steps (forward, backward, reduction, norm, clipping, AdamW, gather) of a GPT "
      "on random tokens.\nIn the same run it measures oneDNN's fp32 matmul (peak: mean of n = "
      "1024, 2048, 4096) and the memory's bandwidth\n(out += source on 256 MiB arrays). It counts "
      "6 x parameters + 12 L d T operations per token and prints the fraction\nof the peak, then "
      "time, bytes, rate and limit of every kernel of the median step at its shapes.");
  step_app->add_option("--model", model, "GPT-2 124M, or 6 layers of 384 with 65 characters")
      ->check(CLI::IsMember({"124M", "10M"}))
      ->capture_default_str();
  step.training.batch_size = 4;
  step.training.block_length = 64;
  add_count(step_app, "--batch", step.training.batch_size, "Sequences a rank and step");
  add_count(step_app, "--block", step.training.block_length, "Tokens a sequence");
  step_app->add_option("--stage", step.training.engine.stage, "0: DDP, 1: ZeRO-1, 2: ZeRO-2")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  add_count(step_app, "--ranks", step.training.ranks, "Ranks; each gets cores / ranks threads");
  add_count(step_app, "--steps", step.steps, "Measured steps, after one that warms up");
  add_json(step_app, step.json);

  bench::RanksCommand ranks;
  ranks.training = {.model = kModels.at("10M"), .batch_size = 8, .block_length = 256, .ranks = 4};
  ranks.cores = cores;
  CLI::App* ranks_app = program.add_subcommand(
      "ranks",
      "The 10M model: one rank with the global batch against several ranks that share the same "
      "cores, under DDP, ZeRO-1 and ZeRO-2.\nThe variants take turns, one step each a round; "
      "ratios are medians over the rounds, so that drift cancels.");
  add_count(ranks_app, "--ranks", ranks.training.ranks, "Ranks to share the cores");
  add_count(ranks_app, "--batch", ranks.training.batch_size,
            "Sequences of 256 tokens a rank and step");
  add_count(ranks_app, "--rounds", ranks.rounds, "Measured rounds, after one that warms up");
  add_json(ranks_app, ranks.json);

  bench::OverheadCommand overhead;
  overhead.training = {.model = kModels.at("10M"), .batch_size = 4, .block_length = 256};
  overhead.training.threads = cores;
  CLI::App* overhead_app = program.add_subcommand(
      "overhead",
      "What the engine costs one rank: the 10M model in a plain loop (gradients in tensors of "
      "their "
      "own, the same clipping, AdamW by\nparameter) against the engine under every stage. The "
      "variants take turns, one step each a round; ratios are medians over the rounds.");
  add_count(overhead_app, "--batch", overhead.training.batch_size,
            "Sequences of 256 tokens a step");
  add_count(overhead_app, "--rounds", overhead.rounds, "Measured rounds, after one that warms up");
  add_json(overhead_app, overhead.json);

  bench::OverlapCommand overlap;
  overlap.training = {.model = kModels.at("10M"), .batch_size = 4, .block_length = 256, .ranks = 2};
  CLI::App* overlap_app = program.add_subcommand(
      "overlap",
      "How much of the gradients' communication overlap_comm hides: the 10M model, tied and "
      "untied, "
      "under every stage, on a modelled link on\nwhich a step's gradients take half of the "
      "backward.\n"
      "backward: without what it waited for; gradients: their transfers; last: the last bucket's, "
      "which nothing can hide; exposed: the\ncomputation stood still for gradients; at end: of "
      "that, "
      "behind the backward; hidden: (gradients - exposed) / (gradients - last);\ngathers: the "
      "computation stood still for parameters; volume: bytes sent over those of 2 x parameters x "
      "(N - "
      "1) / N elements.");
  overlap_app
      ->add_option("--ranks", overlap.training.ranks, "Ranks; each gets cores / ranks threads")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  add_count(overlap_app, "--batch", overlap.training.batch_size,
            "Sequences of 256 tokens a rank and step");
  overlap_app
      ->add_option("--bucket-size", overlap.training.engine.reduce_bucket_size,
                   "Elements of a bucket; 0: auto")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  overlap_app
      ->add_option("--latency-us", overlap.training.link.latency_us,
                   "The link's latency, of each round of a collective")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_count(overlap_app, "--rounds", overlap.rounds, "Rounds of a turn of every variant");
  add_count(overlap_app, "--steps", overlap.steps,
            "Measured steps of a turn, between one before and one after them");
  add_json(overlap_app, overlap.json);

  bench::TokensCommand tokens;
  CLI::App* tokens_app = program.add_subcommand(
      "tokens",
      "How fast one thread turns a text, repeated to 100 MB, into GPT-2's tokens, and two texts "
      "that are one long word;\nbeside it, how fast it finds the text's words, and reads its "
      "bytes.");
  tokens_app->add_option("TEXT", tokens.text, "Text file")->required();
  tokens_app->add_option("--vocab", tokens.vocab, "Folder with GPT-2's encoder.json and vocab.bpe")
      ->required();
  add_count(tokens_app, "--rounds", tokens.rounds, "Measured rounds, after one that warms up");
  add_json(tokens_app, tokens.json);

  bench::CheckpointCommand checkpoint;
  CLI::App* checkpoint_app = program.add_subcommand(
      "checkpoint",
      "Saves GPT-2 124M with AdamW's state, in turn with dd, which writes as many bytes to the "
      "same disk with a sync, and with one copy in\nmemory of what is saved.");
  add_count(checkpoint_app, "--ranks", checkpoint.ranks, "Ranks, each of which writes a file");
  checkpoint_app->add_option("--folder", checkpoint.folder, "Whose disk is measured")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_count(checkpoint_app, "--rounds", checkpoint.rounds,
            "Measured rounds, after one that warms up");
  add_json(checkpoint_app, checkpoint.json);
  CLI11_PARSE(program, argc, argv);

  step.training.model = kModels.at(model);
  step.training.threads = threads_of(cores, step.training.ranks);
  ranks.training.threads = threads_of(cores, ranks.training.ranks);
  overlap.training.threads = threads_of(cores, overlap.training.ranks);
  try {
    if (*tokens_app) {
      bench::run_tokens_command(tokens);
      return 0;
    }
    const std::unique_ptr<Backend> backend = make_onednn_backend();
    if (*step_app) {
      bench::run_step_command(step, *backend);
    } else if (*ranks_app) {
      bench::run_ranks_command(ranks, *backend);
    } else if (*overhead_app) {
      bench::run_overhead_command(overhead, *backend);
    } else if (*checkpoint_app) {
      bench::run_checkpoint_command(checkpoint, *backend);
    } else {
      bench::run_overlap_command(overlap, *backend);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
