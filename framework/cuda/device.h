#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace zerolab::cuda {

struct Device {
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  int64_t memory = 0;       ///< bytes
  int64_t free_memory = 0;  ///< bytes now
};

/// The CUDA devices that this program finds on this machine; in every build.
struct Devices {
  std::vector<Device> found;  ///< by their number
  std::string missing;        ///< why there is none, else empty

  bool is_available() const { return missing.empty(); }
};
Devices find_devices();

/// Versions by name, such as "13.0": `cuda_runtime`, `cuda_driver`, `cublaslt`, and `cudnn` once
/// its attention is in use. Empty in a build without CUDA.
std::map<std::string, std::string> library_versions();

/// Lets the first `num_devices` devices (or all there are) read each other's memory, as the kernels
/// of ranks that share memory do (comm/local.h). Throws where they cannot.
void share_memory_between_devices(int num_devices);

}  // namespace zerolab::cuda
