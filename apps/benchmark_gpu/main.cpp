#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/benchmark/options.h"
#include "apps/benchmark/training_group.h"
#include "apps/train_gpt/text/text_table.h"
#include "framework/cuda/backend.h"
#include "framework/kernels/dropout_key.h"
#include "framework/kernels/weight_layout.h"

namespace zerolab::bench {
namespace {

struct Options {
  TrainingOptions training;
  CudaOptions cuda;
  int steps = 20;
  std::string json;  ///< file for the result; empty: none
};

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

void run(const Options& command) {
  const std::unique_ptr<Backend> backend = make_cuda_backend(command.cuda);
  const TrainingOptions& options = command.training;
  const DType dtype = options.dtype;
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
  std::vector<app::TableRow> table;
  for (int i = 0; i < kNumCategories; ++i) {
    const auto category = static_cast<Category>(i);
    if (const int64_t held = memory.at_total_peak_of(category); held > 0) {
      table.push_back({std::string(name_of(category)),
                       fmt::format("{:.1f} MiB", static_cast<double>(held) / (1 << 20))});
      bytes[std::string(name_of(category))] = held;
    }
  }
  fmt::print("{}", app::text_table(table, {app::kLeftColumn}));
  write_result(command.json,
               {{"device", device.name},
                {"stage", options.engine.stage},
                {"ranks", options.ranks},
                {"batch", options.batch_size},
                {"block", options.block_length},
                {"dtype", name_of(dtype)},
                {"attention", command.cuda.attention == CudaAttention::kCudnn ? "cudnn" : "flash"},
                {"product_tflops", peak / 1e12},
                {"memory_gb_per_s", memory_rate / 1e9},
                {"step_ms", median * 1e3},
                {"tokens_per_s", tokens_per_s},
                {"fraction_of_peak", fraction},
                {"memory_at_peak", bytes}});
}

}  // namespace
}  // namespace zerolab::bench

int main(int argc, char** argv) {
  using namespace zerolab;
  const std::map<std::string, DType> dtypes = {
      {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};
  bench::Options options;
  bench::TrainingOptions& training = options.training;
  training.batch_size = 32;
  training.block_length = 1024;
  training.dtype = DType::kBFloat16;

  CLI::App program(
      "benchmark-gpu: full training steps of GPT-2 124M on random tokens on NVIDIA GPUs, against a "
      "large matrix\nproduct's rate in the same run, and the memory by category. Ranks share the "
      "devices there are.");
  bench::add_count(program, "--batch", training.batch_size, "Sequences a rank and step");
  bench::add_count(program, "--block", training.block_length, "Tokens a sequence");
  bench::add_count(program, "--ranks", training.ranks, "Ranks");
  bench::add_count(program, "--steps", options.steps, "Measured steps, after one that warms up");
  program.add_option("--stage", training.engine.stage, "0: DDP, 1: ZeRO-1, 2: ZeRO-2")
      ->check(CLI::Range(0, zero::kLastStage))
      ->capture_default_str();
  program.add_option("--dtype", training.dtype, "Of parameters and activations")
      ->transform(CLI::CheckedTransformer(dtypes))
      ->default_str("bf16");
  const std::map<std::string, CudaAttention> kernels = {{"flash", CudaAttention::kFlash},
                                                        {"cudnn", CudaAttention::kCudnn}};
  program.add_option("--attention", options.cuda.attention, "Kernels of attention")
      ->transform(CLI::CheckedTransformer(kernels))
      ->default_str("flash");
  bench::add_json(program, options.json);
  CLI11_PARSE(program, argc, argv);
  try {
    bench::run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
