#include "apps/train_gpt/setup/launch.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>

#include "apps/train_gpt/config/refuse.h"
#include "apps/train_gpt/setup/engine_options.h"
#include "framework/comm/local.h"
#include "framework/comm/nccl.h"
#include "framework/cuda/backend.h"
#include "framework/onednn/backend.h"
#include "framework/plain/backend.h"

namespace zerolab::app {
namespace {

std::optional<int64_t> read_bytes(const char* file) {
  std::ifstream stream(file);
  int64_t bytes = 0;
  return stream >> bytes ? std::optional(bytes) : std::nullopt;
}

int64_t sharing(int64_t ranks, const std::vector<cuda::Device>& devices) {
  const int64_t shares = std::max<int64_t>(std::ssize(devices), 1);
  return (ranks + shares - 1) / shares;
}

/// 90 % of what the host has, or the device with the least, shared among its ranks.
int64_t memory_of_a_rank(int64_t ranks, const std::vector<cuda::Device>& devices) {
  const int64_t memory =
      devices.empty() ? total_memory()
                      : std::ranges::min(devices, {}, &cuda::Device::free_memory).free_memory;
  return memory / 10 * 9 / sharing(ranks, devices);
}

/// Refuses what only GPUs can do, and what cuDNN cannot.
void check_device_options(const RunConfig& config) {
  const auto refuse_value = [&](const std::string& key, std::string_view got,
                                std::string_view expected) {
    refuse(config, key, "{}; got \"{}\", expected {}", key, got, expected);
  };
  const bool cudnn = config.launch.attention == "cudnn";
  if (config.launch.device == "cpu" && config.train.precision == "tf32") {
    refuse_value("train.precision", "tf32", "\"fp32\" on launch.device \"cpu\"");
  }
  if (config.launch.device == "cpu" && cudnn) {
    refuse_value("launch.attention", "cudnn", "\"flash\" on launch.device \"cpu\"");
  }
  if (parameter_dtype(config) == DType::kFloat32 && cudnn) {
    refuse_value(
        "launch.attention", "cudnn",
        fmt::format("\"flash\" with train.precision \"{}\": cuDNN's attention has bf16 and fp16",
                    config.train.precision));
  }
}

NcclOptions nccl_options(const RunConfig& config) { return {.timeout_s = config.comm.timeout_s}; }

}  // namespace

int64_t total_memory() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const char* limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    bytes = std::min(bytes, read_bytes(limit).value_or(bytes));
  }
  return bytes;
}

void resolve_launch(RunConfig& config) {
  LaunchSection& launch = config.launch;
  const cuda::Devices devices = launch.device == "cpu" ? cuda::Devices() : cuda::find_devices();
  if (launch.device == "cuda" && !devices.is_available()) {
    refuse(config, "launch.device", "launch.device; got \"cuda\", but {}; use \"cpu\"",
           devices.missing);
  }
  launch.device = devices.found.empty() ? "cpu" : "cuda";
  check_device_options(config);
  if (launch.threads_per_rank == 0) {
    const int64_t cores = std::thread::hardware_concurrency();
    launch.threads_per_rank = std::max<int64_t>(cores / launch.ranks, 1);
  }
  if (launch.memory_limit == 0) {
    launch.memory_limit = memory_of_a_rank(launch.ranks, devices.found);
  }
}

int64_t ranks_of_a_device(const RunConfig& config) {
  return sharing(config.launch.ranks, config.launch.device == "cpu" ? std::vector<cuda::Device>()
                                                                    : cuda::find_devices().found);
}

RankOptions rank_options(const RunConfig& config, int rank) {
  return {.rank = rank,
          .world_size = static_cast<int>(config.launch.ranks),
          .threads = static_cast<int>(config.launch.threads_per_rank),
          .memory_limit = config.launch.memory_limit,
          .poison = config.debug.poison};
}

std::unique_ptr<Backend> make_backend(const RunConfig& config) {
  const LaunchSection& launch = config.launch;
  if (launch.device == "cuda") {
    return make_cuda_backend(
        {.tf32 = config.train.precision == "tf32",
         .attention = launch.attention == "cudnn" ? CudaAttention::kCudnn : CudaAttention::kFlash});
  }
  return launch.backend == "onednn" ? make_onednn_backend() : make_plain_backend();
}

GroupPlan plan_group(const RunConfig& config) {
  const int64_t ranks = config.launch.ranks;
  const bool modelled =
      config.comm.bandwidth_gbps > 0 || config.comm.latency_us > 0 || config.debug.jitter > 0;
  if (config.launch.device == "cpu" || ranks == 1 || modelled || !nccl_is_available() ||
      ranks > std::ssize(cuda::find_devices().found)) {
    return {.name = "local"};
  }
  return {.name = "nccl",
          .communicator_bytes = (ranks - 1) * staging_bytes_for_a_peer(nccl_options(config),
                                                                       static_cast<int>(ranks))};
}

std::unique_ptr<RankGroup> make_group(const RunConfig& config) {
  const int ranks = static_cast<int>(config.launch.ranks);
  if (plan_group(config).name == "nccl") {
    return make_nccl_group(ranks, nccl_options(config));
  }
  if (config.launch.device == "cuda" && ranks > 1) {
    cuda::share_memory_between_devices(ranks);
  }
  return std::make_unique<LocalGroup>(
      ranks, LocalOptions{.timeout_s = config.comm.timeout_s,
                          .bandwidth_gbps = config.comm.bandwidth_gbps,
                          .latency_us = config.comm.latency_us,
                          .jitter_us = config.debug.jitter,
                          .jitter_seed = static_cast<uint64_t>(config.run.seed)});
}

}  // namespace zerolab::app
