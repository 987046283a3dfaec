#include "apps/train_gpt/metrics/environment.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <toml++/toml.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/train_gpt/setup/launch.h"
#include "apps/train_gpt/text/format.h"
#include "framework/comm/nccl.h"
#include "framework/cuda/device.h"
#include "framework/onednn/backend.h"

namespace zerolab::app {
namespace {

/// The text after `separator` in the first line of `file` that begins with `key`.
std::string value_in(const char* file, std::string_view key, char separator) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) {
      const size_t begin = line.find_first_not_of(" \"", line.find(separator) + 1);
      return line.substr(begin, line.find_last_not_of('"') + 1 - begin);
    }
  }
  return "unknown";
}

std::string kernel() {
  utsname name = {};
  uname(&name);
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

nlohmann::json libraries_json(const RunConfig& config) {
  nlohmann::json json = {
      {"fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"tomlplusplus", fmt::format("{}.{}.{}", TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH)}};
  if (onednn_is_available()) {
    json["onednn"] = onednn_version();
    json["openmp"] = BUILD_OPENMP;
  }
  if (config.launch.device == "cuda") {
    for (const auto& [name, version] : cuda::library_versions()) {
      json[name] = version;
    }
    if (nccl_is_available()) {
      json["nccl"] = nccl_version();
    }
  }
  return json;
}

}  // namespace

nlohmann::json environment_json(const RunConfig& config) {
  nlohmann::json devices = nlohmann::json::array();
  if (config.launch.device == "cuda") {
    for (const cuda::Device& device : cuda::find_devices().found) {
      devices.push_back(fmt::format("{}, compute capability {}.{}, {}", device.name, device.major,
                                    device.minor, format_bytes(device.memory)));
    }
  }
  return {{"processor", value_in("/proc/cpuinfo", "model name", ':')},
          {"cores", std::thread::hardware_concurrency()},
          {"memory", total_memory()},
          {"devices", devices},
          {"system", value_in("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", kernel()},
          {"compiler", __VERSION__},
          {"build", BUILD_TYPE},
          {"flags", BUILD_FLAGS},
          {"libraries", libraries_json(config)}};
}

}  // namespace zerolab::app
