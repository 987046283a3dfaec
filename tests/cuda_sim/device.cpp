#include "cuda_sim/device.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "cuda_sim/simulator.h"

namespace zerolab::cuda_sim {

HostThread& host_thread() {
  thread_local HostThread state;
  return state;
}

Device& Device::instance() {
  static Device device;
  return device;
}

Device::Device() { streams.push_back(std::make_unique<CUstream_st>()); }

CUstream_st* Device::find(cudaStream_t handle) {
  if (handle == nullptr) {
    return streams[0].get();
  }
  if (handle == cudaStreamPerThread) {
    CUstream_st*& own = host_thread().stream;
    if (own == nullptr) {
      own = streams.emplace_back(std::make_unique<CUstream_st>()).get();
    }
    return own;
  }
  const auto at =
      std::find_if(streams.begin(), streams.end(), [&](auto& s) { return s.get() == handle; });
  return at == streams.end() || handle->destroyed ? nullptr : handle;
}

void Device::enqueue(CUstream_st* stream, std::function<void()> body,
                     std::shared_ptr<Mark> wait_for) {
  stream->operations.push_back({std::move(wait_for), std::move(body)});
}

std::shared_ptr<Mark> Device::record(CUstream_st* stream) {
  auto mark = std::make_shared<Mark>();
  mark->stream = stream;
  enqueue(stream, [mark] {
    mark->reached = true;
    mark->time = std::chrono::steady_clock::now();
  });
  return mark;
}

cudaError_t Device::run_until(const Mark& mark) {
  host_waits += mark.reached ? 0 : 1;
  const uint32_t others = random.below(3);  // in three: how often another stream gets on
  auto progress = std::chrono::steady_clock::now();
  while (!mark.reached && sticky == cudaSuccess) {
    advance(random.below(3) < others ? random_busy_stream() : mark.stream, progress);
  }
  return sticky;
}

cudaError_t Device::run_all() {
  auto progress = std::chrono::steady_clock::now();
  for (CUstream_st* busy; sticky == cudaSuccess && (busy = random_busy_stream()) != nullptr;) {
    advance(busy, progress);
  }
  return sticky;
}

cudaError_t Device::run_a_little() {
  for (uint32_t left = random.below(3); left > 0 && sticky == cudaSuccess; --left) {
    if (CUstream_st* busy = random_busy_stream()) {
      step(busy);
    }
  }
  return sticky;
}

void Device::forget_if_done(CUstream_st* stream) {
  if (stream->destroyed && stream->operations.empty()) {
    std::erase_if(streams, [&](auto& s) { return s.get() == stream; });
  }
}

cudaError_t Device::break_down(cudaError_t error, std::string text) {
  sticky = error;
  error_text = std::move(text);
  return error;
}

CUstream_st* Device::random_busy_stream() {
  std::vector<CUstream_st*> busy;
  for (const auto& stream : streams) {
    if (!stream->operations.empty()) {
      busy.push_back(stream.get());
    }
  }
  return busy.empty() ? nullptr : busy[random.below(static_cast<uint32_t>(busy.size()))];
}

void Device::advance(CUstream_st* stream, std::chrono::steady_clock::time_point& progress) {
  if (step(stream)) {
    progress = std::chrono::steady_clock::now();
    return;
  }
  changed_.wait_for(mutex, std::chrono::milliseconds(1));
  if (std::chrono::steady_clock::now() - progress > patience) {
    break_down(cudaErrorLaunchTimeout, "a stream waits for what no host thread queues");
  }
}

bool Device::step(CUstream_st* stream) {
  // A mark that is not reached is in its stream's queue, so that this ends at work that can run;
  // but collectives in different orders wait in a circle.
  for (size_t hops = 0; stream != nullptr; ++hops) {
    const std::shared_ptr<Mark>& mark = stream->operations.front().wait_for;
    if (mark == nullptr || mark->reached) {
      break;
    }
    stream = hops > streams.size() ? nullptr : mark->stream;
  }
  if (stream == nullptr) {
    return false;
  }
  const Operation operation = std::move(stream->operations.front());
  stream->operations.pop_front();
  host_thread().executes = true;
  memory.open();
  try {
    operation.body();
  } catch (const std::exception& error) {
    break_down(cudaErrorLaunchFailure, error.what());
  }
  memory.close();
  host_thread().executes = false;
  forget_if_done(stream);
  return true;
}

void set_seed(uint64_t seed) {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  device.random = Random(seed);
}

std::string last_error() {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  return device.error_text;
}

void reset(uint64_t seed) {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  device.random = Random(seed);
  for (const auto& stream : device.streams) {
    stream->operations.clear();
  }
  std::erase_if(device.streams, [](auto& s) { return s->destroyed; });
  device.sticky = cudaSuccess;
  device.nccl_fault = Fault::kNone;
  device.error_text.clear();
  device.max_dynamic_shared.clear();
  host_thread().last_error = cudaSuccess;
}

void set_devices(int count, size_t bytes, bool peers_reach_each_other) {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  device.num_devices = count;
  device.peers_reach_each_other = peers_reach_each_other;
  device.peer_access.clear();
  device.memory.limit = bytes;
}

void check_memory() {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  device.memory.check();
}

size_t num_host_waits() {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  return device.host_waits;
}

size_t num_allocations() {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  return device.memory.num_allocations();
}

cudaError_t launch(const LaunchShape& shape, cudaStream_t handle, std::function<void()> body) {
  return call([&](Device& device) {
    constexpr size_t kSharedBytes = 48 * 1024;  // without cudaFuncSetAttribute
    const dim3 grid = shape.grid;
    const dim3 block = shape.block;
    CUstream_st* stream = device.find(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    const auto allowed = device.max_dynamic_shared.find(shape.function);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535 ||
        grid.z > 65535 || block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 ||
        block.y > 1024 || block.z > 64 || block.x * block.y * block.z > 1024 ||
        shape.shared_bytes >
            (allowed == device.max_dynamic_shared.end() ? kSharedBytes : allowed->second)) {
      return cudaErrorInvalidConfiguration;
    }
    device.enqueue(stream, [shape, body = std::move(body), &device] {
      run_grid(shape.grid, shape.block, shape.shared_bytes, body, device.random);
    });
    return cudaSuccess;
  });
}

}  // namespace zerolab::cuda_sim
