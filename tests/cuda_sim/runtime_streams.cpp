// Streams and events.

#include <algorithm>

#include "cuda_sim/device.h"

using zerolab::cuda_sim::call;
using zerolab::cuda_sim::Device;
using zerolab::cuda_sim::Mark;

namespace {

/// Calls the body with the stream, or the event, that a handle names.
template <typename Body>
cudaError_t with_stream(cudaStream_t handle, Body&& body) {
  return call([&](Device& device) {
    CUstream_st* stream = device.find(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(device, stream);
  });
}
template <typename Body>
cudaError_t with_event(cudaEvent_t event, Body&& body) {
  return call([&](Device& device) {
    return device.events.contains(event) ? body(device) : cudaErrorInvalidResourceHandle;
  });
}

}  // namespace

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return call([&](Device& device) {
    if (flags != cudaStreamNonBlocking) {
      return cudaErrorNotSupported;
    }
    *stream = device.streams.emplace_back(std::make_unique<CUstream_st>()).get();
    (*stream)->priority = std::clamp(priority, -5, 0);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return with_stream(handle, [](Device& device, CUstream_st* stream) {
    stream->destroyed = true;
    device.forget_if_done(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(handle, [&](Device&, CUstream_st* stream) {
    *priority = stream->priority;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream(handle, [](Device& device, CUstream_st* stream) {
    return device.run_until(*device.record(stream));
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream(handle, [](Device& device, CUstream_st* stream) {
    const cudaError_t status = device.run_a_little();
    return status != cudaSuccess        ? status
           : stream->operations.empty() ? cudaSuccess
                                        : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return with_stream(handle, [&](Device& device, CUstream_st* stream) {
    if (!device.events.contains(event)) {
      return cudaErrorInvalidResourceHandle;
    }
    if (event->mark != nullptr) {
      device.enqueue(
          stream, [] {}, event->mark);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return with_stream(handle, [&](Device& device, CUstream_st* stream) {
    device.enqueue(stream, [function, data] { function(data); });
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&](Device& device) {
    auto created = std::make_unique<CUevent_st>();
    created->timed = (flags & cudaEventDisableTiming) == 0;
    *event = created.get();
    device.events.emplace(*event, std::move(created));
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return with_event(event, [&](Device& device) {
    device.events.erase(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return with_stream(handle, [&](Device& device, CUstream_st* stream) {
    if (!device.events.contains(event)) {
      return cudaErrorInvalidResourceHandle;
    }
    event->mark = device.record(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return with_event(event, [&](Device& device) {
    const cudaError_t status = device.run_a_little();
    return status != cudaSuccess                            ? status
           : event->mark == nullptr || event->mark->reached ? cudaSuccess
                                                            : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return with_event(event, [&](Device& device) {
    const std::shared_ptr<Mark> mark = event->mark;
    return mark == nullptr ? cudaSuccess : device.run_until(*mark);
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&](Device& device) {
    for (const cudaEvent_t event : {start, end}) {
      if (!device.events.contains(event) || event->mark == nullptr || !event->timed) {
        return cudaErrorInvalidResourceHandle;
      }
      if (!event->mark->reached) {
        return cudaErrorNotReady;
      }
    }
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
    return cudaSuccess;
  });
}
