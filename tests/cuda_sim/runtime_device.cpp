// Devices, errors, functions' attributes.

#include <cstring>

#include "cuda_sim/device.h"
#include "cuda_sim/simulator.h"

using zerolab::cuda_sim::call;
using zerolab::cuda_sim::Device;
using zerolab::cuda_sim::host_thread;

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&](Device& device) {
    *count = device.num_devices;
    return device.num_devices > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int index) {
  return call([&](Device& device) {
    if (index < 0 || index >= device.num_devices) {
      return cudaErrorInvalidDevice;
    }
    host_thread().device = index;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* index) {
  *index = host_thread().device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  return call([&](Device& device) {
    if (index < 0 || index >= device.num_devices) {
      return cudaErrorInvalidDevice;
    }
    *properties = {};
    std::strcpy(properties->name, "simulated");
    properties->major = 9;
    properties->totalGlobalMem = device.memory.limit;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = zerolab::cuda_sim::kMaxSharedBytes;
    properties->warpSize = zerolab::cuda_sim::kWarpSize;
    properties->maxThreadsPerBlock = 1024;
    properties->multiProcessorCount = 4;
    properties->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int index) {
  cudaDeviceProp properties;
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, index)) {
    return status;
  }
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      return cudaSuccess;
    default:
      return cudaErrorNotSupported;
  }
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can_access, int index, int peer) {
  return call([&](Device& device) {
    *can_access = device.peers_reach_each_other && index != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  return call([&](Device& device) {
    if (!device.peers_reach_each_other || peer == host_thread().device) {
      return cudaErrorPeerAccessUnsupported;
    }
    return device.peer_access.emplace(host_thread().device, peer).second
               ? cudaSuccess
               : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

cudaError_t cudaDeviceSynchronize() {
  return call([](Device& device) { return device.run_all(); });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&](Device& device) {
    *total = device.memory.limit;
    *free = device.memory.limit - device.memory.used();
    return cudaSuccess;
  });
}

cudaError_t cudaPeekAtLastError() { return host_thread().last_error; }

cudaError_t cudaGetLastError() {
  const cudaError_t error = host_thread().last_error;
  host_thread().last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define NAME(error) \
  case error:       \
    return #error
    NAME(cudaSuccess);
    NAME(cudaErrorInvalidValue);
    NAME(cudaErrorMemoryAllocation);
    NAME(cudaErrorInvalidConfiguration);
    NAME(cudaErrorInvalidDevice);
    NAME(cudaErrorNoDevice);
    NAME(cudaErrorInvalidResourceHandle);
    NAME(cudaErrorIllegalAddress);
    NAME(cudaErrorLaunchFailure);
    NAME(cudaErrorLaunchTimeout);
    NAME(cudaErrorNotReady);
    NAME(cudaErrorNotPermitted);
    NAME(cudaErrorNotSupported);
#undef NAME
    default:
      return "an error that the simulator does not raise";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  text = zerolab::cuda_sim::last_error();
  return error == cudaErrorLaunchFailure || error == cudaErrorIllegalAddress ||
                 error == cudaErrorLaunchTimeout
             ? text.c_str()
             : cudaGetErrorName(error);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call([&](Device& device) {
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      return cudaSuccess;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<size_t>(value) > zerolab::cuda_sim::kMaxSharedBytes) {
      return cudaErrorInvalidValue;
    }
    device.max_dynamic_shared[function] = static_cast<size_t>(value);
    return cudaSuccess;
  });
}
