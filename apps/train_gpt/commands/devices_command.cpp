#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <thread>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/text/format.h"
#include "framework/comm/nccl.h"
#include "framework/cuda/device.h"
#include "framework/onednn/backend.h"

namespace zerolab::app {
namespace {

void print_devices() {
  fmt::print("cpu: {} cores, {} for this program; kernels: {}plain\n",
             std::thread::hardware_concurrency(), format_bytes(total_memory()),
             onednn_is_available() ? "onednn, " : "");
  const cuda::Devices devices = cuda::find_devices();
  for (size_t i = 0; i < devices.found.size(); ++i) {
    const cuda::Device& device = devices.found[i];
    fmt::print("cuda {}: {}, compute capability {}.{}, {}, of which {} are free\n", i, device.name,
               device.major, device.minor, format_bytes(device.memory),
               format_bytes(device.free_memory));
  }
  if (devices.is_available()) {
    fmt::print("nccl: {}\n", nccl_is_available() ? "built" : "not built");
  } else {
    fmt::print("cuda: none: {}\n", devices.missing);
  }
}

}  // namespace

Command add_devices(CLI::App& program) {
  return {program.add_subcommand("devices", "List what launch.device can name on this machine"),
          [] {
            print_devices();
            return 0;
          }};
}

}  // namespace zerolab::app
