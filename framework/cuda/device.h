#pragma once

#include <cstdint>
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

/// What of CUDA this program finds on this machine; in every build.
struct Devices {
  std::vector<Device> found;  ///< by their number
  std::string missing;        ///< why there is none, else empty

  bool is_available() const { return missing.empty(); }
};
Devices find_devices();

}  // namespace zerolab::cuda
