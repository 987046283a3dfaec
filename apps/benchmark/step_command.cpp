#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/command.h"
#include "apps/benchmark/ops_table.h"
#include "apps/benchmark/options.h"
#include "apps/benchmark/peak.h"
#include "framework/onednn/backend.h"

namespace zerolab::bench {
namespace {

struct StepCommand {
  TrainingOptions training;
  std::string model = "124M";
  int steps = 5;     ///< measured; one before them warms up
  std::string json;  ///< file; empty: none
};

void print_limits(const MachineLimits& limits, int threads) {
  fmt::print("oneDNN fp32 matmul, {} threads:", threads);
  for (const MachineLimits::Product& product : limits.products) {
    fmt::print(" n={} {:.1f}", product.n, product.gflops);
  }
  fmt::print(" -> peak {:.1f} GFLOP/s; memory {:.1f} GB/s\n", limits.peak_flops() / 1e9,
             limits.gigabytes_per_s);
}

/// Measures the machine's limits and full training steps, and prints the table of kernels of the
/// median step.
void run_step(const StepCommand& command, Backend& backend) {
  TrainingOptions options = command.training;
  options.profiled = true;
  const int threads = options.ranks * options.threads;
  MachineLimits limits = measure_limits(backend, threads);
  std::vector<StepMeasurement> steps;
  int64_t num_params = 0;
  double flops_per_token = 0.0;
  {
    TrainingGroup group(options, backend);
    num_params = group.num_params();
    flops_per_token = group.flops_per_token();
    group.step();
    for (int i = 0; i < command.steps; ++i) {
      steps.push_back(group.step());
    }
  }
  // Before and after: what else runs on the machine must not make the peak look small.
  limits.improve(measure_limits(backend, threads));

  std::ranges::sort(steps, {}, &StepMeasurement::seconds);
  const StepMeasurement& median = steps[(steps.size() - 1) / 2];
  const auto tokens = static_cast<double>(options.global_tokens());
  const auto fraction = [&](const StepMeasurement& step) {
    return tokens * flops_per_token / step.seconds / limits.peak_flops();
  };
  print_limits(limits, threads);
  fmt::print("{:.1f} M parameters, {} rank(s) x {} thread(s), stage {}, B = {}, T = {}\n",
             static_cast<double>(num_params) / 1e6, options.ranks, options.threads,
             options.engine.stage, options.batch_size, options.block_length);
  fmt::print(
      "step: median {:.1f} ms of {} ({:.1f} to {:.1f}), {:.0f} tokens/s, {} page faults, cores "
      "{:.0f} "
      "% busy\n",
      median.seconds * 1e3, steps.size(), steps.front().seconds * 1e3, steps.back().seconds * 1e3,
      tokens / median.seconds, median.page_faults,
      median.cpu_seconds / median.seconds / threads * 100);
  fmt::print(
      "fraction of the peak at 6 x parameters + 12 L d T per token: median {:.1f} %, best "
      "{:.1f} %\n\n",
      fraction(median) * 100, fraction(steps.front()) * 100);
  const OpsTable table(median, limits);
  table.print();
  write_result(command.json, {{"command", "step"},
                              {"parameters", num_params},
                              {"ranks", options.ranks},
                              {"threads", options.threads},
                              {"stage", options.engine.stage},
                              {"batch", options.batch_size},
                              {"block", options.block_length},
                              {"peak_gflops", limits.peak_flops() / 1e9},
                              {"memory_gb_per_s", limits.gigabytes_per_s},
                              {"step_ms", median.seconds * 1e3},
                              {"best_step_ms", steps.front().seconds * 1e3},
                              {"tokens_per_s", tokens / median.seconds},
                              {"fraction_of_peak", fraction(median)},
                              {"page_faults", median.page_faults},
                              {"cpu_seconds", median.cpu_seconds},
                              {"ops", table.to_json()}});
}

}  // namespace

Command add_step(CLI::App& program) {
  const auto command = std::make_shared<StepCommand>();
  CLI::App* const line = program.add_subcommand(
      "step",
      "Full training steps (forward, backward, reduction, norm, clipping, AdamW, gather) "
      "of a GPT on random tokens.\n"
      "In the same run it measures oneDNN's fp32 matmul (peak: mean of n = 1024, 2048, "
      "4096) and the memory's bandwidth\n"
      "(out += source on 256 MiB arrays). It counts 6 x parameters + 12 L d T operations "
      "per token and prints the fraction\n"
      "of the peak, then time, bytes, rate and limit of every kernel of the median step at "
      "its shapes.");
  line->add_option("--model", command->model, "GPT-2 124M, or 6 layers of 384 with 65 characters")
      ->check(CLI::IsMember({"124M", "10M"}))
      ->capture_default_str();
  command->training.batch_size = 4;
  command->training.block_length = 64;
  add_count(*line, "--batch", command->training.batch_size, "Sequences a rank and step");
  add_count(*line, "--block", command->training.block_length, "Tokens a sequence");
  line->add_option("--stage", command->training.engine.stage, "0: DDP, 1: ZeRO-1, 2: ZeRO-2")
      ->check(CLI::Range(0, zero::kLastStage))
      ->capture_default_str();
  add_count(*line, "--ranks", command->training.ranks, "Ranks; each gets cores / ranks threads");
  add_count(*line, "--steps", command->steps, "Measured steps, after one that warms up");
  add_json(*line, command->json);
  return {line, [command] {
            command->training.model = command->model == "10M" ? model_10m() : model_124m();
            command->training.threads = threads_of_a_rank(command->training.ranks);
            run_step(*command, *make_onednn_backend());
          }};
}

}  // namespace zerolab::bench
