#include "apps/benchmark/gpu_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "framework/cuda/backend.h"

namespace zerolab::bench {
namespace {

constexpr int64_t kProductSize = 8192;
constexpr int64_t kNumel = int64_t{1} << 28;  // far beyond any cache

/// Seconds of a call, the mean of `repeats` after one that is not counted.
template <typename Body>
double mean_seconds(Stream& stream, int repeats, Body&& body) {
  body();
  stream.synchronize();
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < repeats; ++i) {
    body();
  }
  stream.synchronize();
  return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
}

/// FLOP/s of a large square product of the backend's own.
double product_flops(RankContext& context, DType dtype) {
  constexpr auto n = static_cast<double>(kProductSize);
  const Shape shape = {kProductSize, kProductSize};
  const Tensor a = Tensor::empty(context, shape, dtype);
  const Tensor b = Tensor::empty(context, shape, dtype);
  const Tensor out = Tensor::empty(context, shape, dtype);
  // Not constants, with which a GPU draws less power and runs faster.
  const DropoutKey key = {.seed = 1, .op = 0, .first_sample = 0, .probability = 0.5};
  context.backend().fill(context.compute(), out, 0.01);
  context.backend().dropout(context.compute(), out, key, a, false);
  context.backend().dropout(context.compute(), out, key, b, false);
  return 2.0 * n * n * n / mean_seconds(context.compute(), 20, [&] {
           context.backend().linear_forward(context.compute(), a, b, WeightLayout::kInOut, {}, out);
         });
}

/// Bytes a second of out += source.
double bandwidth(RankContext& context) {
  const Tensor out = Tensor::zeros(context, Shape{kNumel}, DType::kFloat32);
  const Tensor source = Tensor::zeros(context, Shape{kNumel}, DType::kFloat32);
  return static_cast<double>(3 * out.bytes()) / mean_seconds(context.compute(), 20, [&] {
           context.backend().accumulate(context.compute(), source, out);
         });
}

}  // namespace

void run_gpu_command(const GpuCommand& command) {
  const std::unique_ptr<Backend> backend = make_cuda_backend();
  const TrainingOptions& options = command.training;
  const DType dtype = options.engine.parameter_dtype;
  const cuda::Device device = cuda::find_devices().found.front();
  double peak = 0.0;
  double memory_rate = 0.0;
  {
    RankContext context({}, *backend);
    peak = product_flops(context, dtype);
    memory_rate = bandwidth(context);
  }
  std::vector<double> seconds;
  double flops_per_token = 0.0;
  MemoryLedger::Snapshot memory;
  {
    TrainingGroup group(options, *backend);
    flops_per_token = group.flops_per_token();
    group.step();
    for (int i = 0; i < command.steps; ++i) {
      StepMeasurement step = group.step();
      seconds.push_back(step.seconds);
      memory = step.memory;
    }
  }
  std::ranges::sort(seconds);
  const double median = seconds[(seconds.size() - 1) / 2];
  const double tokens_per_s = static_cast<double>(options.global_tokens()) / median;
  const double fraction = tokens_per_s * flops_per_token / peak;
  fmt::print("{}: {} product of {} {:.1f} TFLOP/s, memory {:.0f} GB/s\n", device.name,
             name_of(dtype), kProductSize, peak / 1e12, memory_rate / 1e9);
  fmt::print("{}, {} rank(s) on {} device(s), B = {}, T = {}, {}\n",
             zero::name_of_stage(options.engine.stage), options.ranks,
             cuda::find_devices().found.size(), options.batch_size, options.block_length,
             name_of(dtype));
  fmt::print(
      "step: median {:.2f} ms of {} ({:.2f} to {:.2f}), {:.0f} tokens/s, {:.1f} % of the product's "
      "rate at 6 x parameters + 12 L d T per token\n",
      median * 1e3, seconds.size(), seconds.front() * 1e3, seconds.back() * 1e3, tokens_per_s,
      fraction * 100);
  fmt::print("memory of rank 0 at its peak: {:.2f} GiB\n",
             static_cast<double>(memory.total_peak) / (1 << 30));
  nlohmann::json bytes;
  for (int i = 0; i < kNumCategories; ++i) {
    const auto category = static_cast<Category>(i);
    if (const int64_t held = memory.at_total_peak_of(category); held > 0) {
      fmt::print("  {:<18} {:>8.1f} MiB\n", name_of(category),
                 static_cast<double>(held) / (1 << 20));
      bytes[std::string(name_of(category))] = held;
    }
  }
  if (!command.json.empty()) {
    const nlohmann::json record = {{"command", "gpu"},
                                   {"device", device.name},
                                   {"stage", options.engine.stage},
                                   {"ranks", options.ranks},
                                   {"batch", options.batch_size},
                                   {"block", options.block_length},
                                   {"dtype", name_of(dtype)},
                                   {"product_tflops", peak / 1e12},
                                   {"memory_gb_per_s", memory_rate / 1e9},
                                   {"step_ms", median * 1e3},
                                   {"tokens_per_s", tokens_per_s},
                                   {"fraction_of_peak", fraction},
                                   {"memory_at_peak", bytes}};
    std::ofstream(command.json) << record.dump(2) << '\n';
  }
}

}  // namespace zerolab::bench
