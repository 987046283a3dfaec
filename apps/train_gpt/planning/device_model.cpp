#include "apps/train_gpt/planning/device_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "apps/train_gpt/setup/engine_options.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/text/format.h"
#include "framework/kernels/weight_layout.h"
#include "framework/tensor/backend.h"
#include "framework/tensor/rank_context.h"

namespace zerolab::app {
namespace {

/// The shortest of several calls, after one that is not counted.
template <typename Body>
double best_seconds(Stream& stream, Body&& body) {
  constexpr int kLeast = 5;
  constexpr std::chrono::milliseconds kLongest(200);
  double best = std::numeric_limits<double>::infinity();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i <= kLeast || Clock::now() - start < kLongest; ++i) {
    stream.synchronize();
    const Clock::time_point begin = Clock::now();
    body();
    stream.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = i == 0 ? best : std::min(best, seconds);
  }
  return best;
}

/// Of the product in a block's MLP, tokens x C by C x 4C, whose shape decides how near the peak it
/// comes; cut down where it takes long.
double product_flops(RankContext& context, const RunConfig& config) {
  constexpr double kLongEnough = 0.02;  // seconds of one product: long against its launch
  constexpr int64_t kLargest = 8192;
  const DType dtype = parameter_dtype(config);
  const int64_t tokens = config.train.micro_batch_size * config.model.block_size;
  const int64_t width = config.model.n_embd;
  double flops = 0.0;
  double seconds = 0.0;
  bool is_whole = false;
  for (int64_t cut = 128; !is_whole && cut <= kLargest && seconds < kLongEnough; cut *= 2) {
    is_whole = std::max(tokens, 4 * width) <= cut;
    const int64_t rows = std::min(tokens, cut);
    const int64_t in = std::min(width, cut);
    const int64_t columns = std::min(4 * width, cut);
    const Tensor x = Tensor::zeros(context, Shape{rows, in}, dtype);
    const Tensor weight = Tensor::zeros(context, Shape{in, columns}, dtype);
    const Tensor out = Tensor::empty(context, Shape{rows, columns}, dtype);
    seconds = best_seconds(context.compute(), [&] {
      context.backend().linear_forward(context.compute(), x, weight, WeightLayout::kInOut, Tensor(),
                                       out);
    });
    flops = 2.0 * static_cast<double>(rows) * static_cast<double>(in * columns) / seconds;
  }
  return flops;
}

double memory_bandwidth(RankContext& context) {
  const Tensor source = Tensor::zeros(context, Shape{int64_t{1} << 24}, DType::kFloat32);
  const Tensor out = Tensor::zeros(context, source.shape(), DType::kFloat32);
  const double seconds = best_seconds(
      context.compute(), [&] { context.backend().accumulate(context.compute(), source, out); });
  return 3.0 * static_cast<double>(out.bytes()) / seconds;  // two reads and a write
}

/// Of one rank of several that share the cores, or a device, and its memory.
ModelledSpeed measure(const RunConfig& config, Backend& backend) {
  const int64_t threads = config.launch.threads_per_rank;
  const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const auto sharing = static_cast<double>(ranks_of_a_device(config));
  const double cores_of_a_rank =
      std::min(1.0, static_cast<double>(cores) / (sharing * static_cast<double>(threads)));
  ModelledSpeed speed;
  {
    RankContext context({.threads = static_cast<int>(threads)}, backend);
    speed.flops_per_s = product_flops(context, config) *
                        (config.launch.device == "cpu" ? cores_of_a_rank : 1.0 / sharing);
  }
  RankContext context({.threads = static_cast<int>(cores)}, backend);
  speed.bytes_per_s = memory_bandwidth(context) / sharing;
  return speed;
}

}  // namespace

DeviceModel make_device_model(const RunConfig& config, Backend& backend, double tflops,
                              double memory_bandwidth_gbps) {
  DeviceModel device;
  device.memory = config.launch.memory_limit;
  const bool measured = tflops == 0.0;
  if (measured) {
    device.speed = measure(config, backend);
  } else {
    device.speed.flops_per_s = tflops * 1e12;
  }
  if (memory_bandwidth_gbps > 0.0) {
    device.speed.bytes_per_s = memory_bandwidth_gbps * 1e9;
  }
  device.text = fmt::format(
      "a rank: {:.4g} TFLOP/s in matrix products, {}, {} of it{}\n",
      device.speed.flops_per_s / 1e12,
      device.speed.bytes_per_s > 0.0
          ? fmt::format("memory of {:.4g} GB/s", device.speed.bytes_per_s / 1e9)
          : "memory that takes no time (--memory-bandwidth)",
      format_bytes(device.memory),
      measured
          ? fmt::format(" (the speeds are measured: the share of one of {} ranks of this machine)",
                        config.launch.ranks)
          : "");
  device.link = {.bandwidth_gbps = config.comm.bandwidth_gbps,
                 .latency_us = config.comm.latency_us};
  if (config.comm.bandwidth_gbps > 0.0) {
    device.text += fmt::format("link: {:g} Gbit/s", config.comm.bandwidth_gbps);
  } else {
    // What is sent is read and written once.
    device.link.bandwidth_gbps = device.speed.bytes_per_s / 2 * 8 / 1e9;
    device.text += "link: as fast as memory (--link)";
  }
  device.text += fmt::format(", latency {:g} us a round\n", config.comm.latency_us);
  return device;
}

}  // namespace zerolab::app
