#include "framework/cuda/device.h"

#include <cublasLt.h>

#include <algorithm>

#include "framework/cuda/check.h"
#include "framework/cuda/cudnn_attention.h"

namespace zerolab::cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Why `cudaGetDeviceCount` found nothing.
std::string reason_of(cudaError_t status) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) {
    return "there is no NVIDIA driver";
  }
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver is too old: got one for CUDA {}, expected {} or newer",
                       version_text(driver), version_text(CUDART_VERSION));
  }
  if (status == cudaSuccess || status == cudaErrorNoDevice) {
    return "there is an NVIDIA driver, but no device that it shows to this program (see nvidia-smi "
           "and CUDA_VISIBLE_DEVICES)";
  }
  return fmt::format("the NVIDIA driver reports: {}", cudaGetErrorString(status));
}

}  // namespace

Devices find_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();  // it has been told
    return {{}, reason_of(status)};
  }
  int current = 0;
  check(cudaGetDevice(&current), "asking for the current device");
  Devices devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    size_t free = 0;
    size_t total = 0;
    check(cudaGetDeviceProperties(&properties, i), "asking for a device's properties");
    check(cudaSetDevice(i), "choosing a device");
    check(cudaMemGetInfo(&free, &total), "asking for a device's memory");
    devices.found.push_back({properties.name, properties.major, properties.minor,
                             static_cast<int64_t>(total), static_cast<int64_t>(free)});
  }
  check(cudaSetDevice(current), "choosing a device");
  return devices;
}

std::map<std::string, std::string> library_versions() {
  int runtime = 0;
  int driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "asking for the runtime's version");
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  const size_t cublaslt = cublasLtGetVersion();
  std::map<std::string, std::string> versions = {
      {"cuda_runtime", version_text(runtime)},
      {"cuda_driver", version_text(driver)},
      {"cublaslt",
       fmt::format("{}.{}.{}", cublaslt / 10000, cublaslt / 100 % 100, cublaslt % 100)}};
  if (const std::string cudnn = cudnn_version(); !cudnn.empty()) {
    versions["cudnn"] = cudnn;
  }
  return versions;
}

void share_memory_between_devices(int num_devices) {
  int count = 0;
  int current = 0;
  check(cudaGetDeviceCount(&count), "counting devices");
  check(cudaGetDevice(&current), "asking for the current device");
  count = std::min(count, num_devices);
  for (int device = 0; device < count; ++device) {
    check(cudaSetDevice(device), "choosing a device");
    for (int peer = 0; peer < count; ++peer) {
      int can_access = 0;
      if (peer != device) {
        check(cudaDeviceCanAccessPeer(&can_access, device, peer), "asking for a device's peers");
        require(can_access != 0, "cuda",
                "device {} cannot read the memory of device {}, as ranks without NCCL must; make "
                "one device visible (CUDA_VISIBLE_DEVICES), which all ranks then share",
                device, peer);
        const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
        if (status == cudaErrorPeerAccessAlreadyEnabled) {
          cudaGetLastError();  // all is well
        } else {
          check(status, "letting a device read its peers' memory");
        }
      }
    }
  }
  check(cudaSetDevice(current), "choosing a device");
}

}  // namespace zerolab::cuda
