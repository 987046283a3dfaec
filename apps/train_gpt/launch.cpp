#include "apps/train_gpt/launch.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>

#include "framework/core/error.h"
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

/// 90 % of what the host has, or the device with the least, shared among its ranks.
int64_t memory_of_a_rank(int64_t ranks, const std::vector<cuda::Device>& devices) {
  if (devices.empty()) {
    return total_memory() / 10 * 9 / ranks;
  }
  const int64_t sharing = (ranks + std::ssize(devices) - 1) / std::ssize(devices);
  return std::ranges::min(devices, {}, &cuda::Device::free_memory).free_memory / 10 * 9 / sharing;
}

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
    throw ConfigError("config", fmt::format("{}: launch.device; got \"cuda\", but {}; use \"cpu\"",
                                            config.place_of("launch.device"), devices.missing));
  }
  launch.device = devices.found.empty() ? "cpu" : "cuda";
  if (launch.threads_per_rank == 0) {
    const int64_t cores = std::thread::hardware_concurrency();
    launch.threads_per_rank = std::max<int64_t>(cores / launch.ranks, 1);
  }
  if (launch.memory_limit == 0) {
    launch.memory_limit = memory_of_a_rank(launch.ranks, devices.found);
  }
}

std::unique_ptr<Backend> make_backend(const LaunchSection& launch) {
  if (launch.device == "cuda") {
    return make_cuda_backend();
  }
  return launch.backend == "onednn" ? make_onednn_backend() : make_plain_backend();
}

}  // namespace zerolab::app
