#include "apps/benchmark/step_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/ops_table.h"
#include "apps/benchmark/peak.h"

namespace zerolab::bench {
namespace {

void print_limits(const MachineLimits& limits, int threads) {
  fmt::print("oneDNN fp32 matmul, {} threads:", threads);
  for (const MachineLimits::Product& product : limits.products) {
    fmt::print(" n={} {:.1f}", product.n, product.gflops);
  }
  fmt::print(" -> peak {:.1f} GFLOP/s; memory {:.1f} GB/s\n", limits.peak_flops() / 1e9,
             limits.gigabytes_per_s);
}

}  // namespace

void run_step_command(const StepCommand& command, Backend& backend) {
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
  if (!command.json.empty()) {
    nlohmann::json record = {{"command", "step"},
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
                             {"ops", table.to_json()}};
    std::ofstream(command.json) << record.dump(2) << '\n';
  }
}

}  // namespace zerolab::bench
