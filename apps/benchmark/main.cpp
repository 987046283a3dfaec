#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "apps/benchmark/ranks_command.h"
#include "apps/benchmark/step_command.h"
#include "framework/memory/allocator.h"
#include "framework/onednn/backend.h"

namespace {

using zerolab::GptConfig;

const std::map<std::string, GptConfig> kModels = {
    {"124M", {}},
    {"10M", {.n_layer = 6, .n_head = 6, .n_embd = 384, .block_size = 256, .vocab_size = 65}}};

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
  step_app->add_option("--batch", step.training.batch_size, "Sequences a rank and step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  step_app->add_option("--block", step.training.block_length, "Tokens a sequence")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  step_app->add_option("--stage", step.training.stage, "0: DDP, 1: ZeRO-1, 2: ZeRO-2")
      ->check(CLI::Range(0, 2))
      ->capture_default_str();
  step_app->add_option("--ranks", step.training.ranks, "Ranks; each gets cores / ranks threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  step_app->add_option("--steps", step.steps, "Measured steps, after one that warms up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  step_app->add_option("--json", step.json, "Write the result to this file as well");

  bench::RanksCommand ranks;
  ranks.training = {.model = kModels.at("10M"), .batch_size = 8, .block_length = 256, .ranks = 4};
  ranks.cores = cores;
  CLI::App* ranks_app = program.add_subcommand(
      "ranks",
      "The 10M model: one rank with the global batch against several ranks that share the same "
      "cores, under DDP, ZeRO-1 and ZeRO-2.\nThe variants take turns, one step each a round; "
      "ratios are medians over the rounds, so that drift cancels.");
  ranks_app->add_option("--ranks", ranks.training.ranks, "Ranks to share the cores")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  ranks_app
      ->add_option("--batch", ranks.training.batch_size, "Sequences of 256 tokens a rank and step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  ranks_app->add_option("--rounds", ranks.rounds, "Measured rounds, after one that warms up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  ranks_app->add_option("--json", ranks.json, "Write the result to this file as well");
  CLI11_PARSE(program, argc, argv);

  step.training.model = kModels.at(model);
  step.training.threads = threads_of(cores, step.training.ranks);
  ranks.training.threads = threads_of(cores, ranks.training.ranks);
  try {
    const std::unique_ptr<Backend> backend = make_onednn_backend();
    if (*step_app) {
      bench::run_step_command(step, *backend);
    } else {
      bench::run_ranks_command(ranks, *backend);
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
