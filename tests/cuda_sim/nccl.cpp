// NCCL: collectives and transfers of streams, executed when all their ranks' streams have come to
// them.

#include <nccl.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda_sim/device.h"
#include "cuda_sim/nccl_collective.h"
#include "cuda_sim/simulator.h"

namespace zerolab::cuda_sim {
namespace {

/// Sender and receiver of a transfer (-1: a collective), and its number in the order of calls.
using Key = std::tuple<int, int, uint64_t>;

struct Collective {
  Collective(const Request& wanted, size_t ranks) : request(wanted), sources(ranks), outs(ranks) {}

  Request request;
  std::vector<const std::byte*> sources;  ///< by rank; of a transfer, the sender's first
  std::vector<std::byte*> outs;
  std::vector<CUstream_st*> streams;  ///< of those that called and have not arrived
  size_t arrived = 0;
  std::shared_ptr<Mark> done = std::make_shared<Mark>();
};

/// The ranks of one unique id.
struct Clique {
  const int size;                                          ///< read without the device's lock
  std::map<Key, std::shared_ptr<Collective>> collectives;  ///< unfinished ones
  std::set<int> devices;                                   ///< of the ranks that have joined
  ncclResult_t error = ncclSuccess;
  std::string text;
};

/// One rank's part of a collective or transfer.
struct Part {
  Request request;
  Key key;
  size_t index;  ///< in `sources` and `outs`
  size_t count;  ///< of ranks that take part
  const void* source;
  void* out;
  ncclComm_t comm;
  CUstream_st* stream;
};

/// Makes `error` that of all ranks.
ncclResult_t fail(Clique& clique, ncclResult_t error, std::string text) {
  if (clique.error == ncclSuccess) {
    clique.error = error;
    clique.text = std::move(text);
  }
  return clique.error;
}

/// Ends all collectives, as they are.
void give_up(Clique& clique) {
  for (auto& [key, collective] : clique.collectives) {
    collective->done->reached = true;
  }
  clique.collectives.clear();
  Device::instance().notify();
}

}  // namespace

void fail_next_collective(bool silent) {
  Device& device = Device::instance();
  const std::lock_guard lock(device.mutex);
  device.nccl_fault = silent ? Fault::kSilent : Fault::kReported;
}

}  // namespace zerolab::cuda_sim

using namespace zerolab::cuda_sim;

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank;
  bool blocking;
  bool ready;  ///< the last call has not said ncclInProgress, or has got on since
  uint64_t calls = 0;
  std::map<int, uint64_t> sent = {};  ///< transfers, by peer
  std::map<int, uint64_t> received = {};
  std::vector<Part> deferred = {};  ///< of a call that said ncclInProgress
  std::string text = {};            ///< that ncclGetLastError has given
};

namespace {

/// This host thread's group calls.
struct Group {
  int depth = 0;
  std::vector<Part> parts;
};
thread_local Group group;

/// The stream arrives at the collective.
ncclResult_t arrive(Device& device, const Part& part) {
  const std::shared_ptr<Clique> clique = part.comm->clique;
  auto& collective = clique->collectives[part.key];
  if (collective == nullptr) {
    collective = std::make_shared<Collective>(part.request, part.count);
  } else if (collective->request != part.request) {
    fail(*clique, ncclInvalidUsage, "ranks call different collectives");
    give_up(*clique);
    return clique->error;
  }
  collective->sources[part.index] = static_cast<const std::byte*>(part.source);
  collective->outs[part.index] = static_cast<std::byte*>(part.out);
  collective->streams.push_back(part.stream);
  collective->done->stream = collective->streams.front();
  device.enqueue(part.stream, [clique, collective = collective, part, &device] {
    std::erase(collective->streams, part.stream);
    collective->done->stream = collective->streams.empty() ? nullptr : collective->streams.front();
    if (++collective->arrived < collective->sources.size() || collective->done->reached) {
      return;
    }
    const Fault fault = std::exchange(device.nccl_fault, Fault::kNone);
    if (fault == Fault::kReported) {
      fail(*clique, ncclRemoteError, "a simulated fault");
    }
    if (fault != Fault::kNone) {
      return;
    }
    execute(collective->request, collective->sources, collective->outs);
    collective->done->reached = true;
    clique->collectives.erase(part.key);
  });
  return ncclSuccess;
}

/// Queues the parts of one group: all go on at the same time, and later work of their streams waits
/// for all.
ncclResult_t launch(Device& device, const std::vector<Part>& parts) {
  std::vector<std::shared_ptr<Mark>> marks;
  for (const Part& part : parts) {
    Clique& clique = *part.comm->clique;
    const ncclResult_t status = clique.error != ncclSuccess ? clique.error : arrive(device, part);
    if (status != ncclSuccess) {
      return status;
    }
    marks.push_back(clique.collectives.at(part.key)->done);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    device.enqueue(
        parts[i].stream, [] {}, marks[i]);
  }
  device.notify();
  return ncclSuccess;
}

/// Queues the group's parts now, or where the communicator does not block perhaps later, when it is
/// asked how it gets on.
ncclResult_t launch_group() {
  const std::vector<Part> parts = std::exchange(group.parts, {});
  if (parts.empty()) {
    return ncclSuccess;
  }
  ncclResult_t result = ncclUnhandledCudaError;
  call([&](Device& device) {
    ncclComm& comm = *parts[0].comm;
    if (!comm.blocking && device.random.below(2) == 0) {
      comm.deferred = parts;
      comm.ready = false;
      result = ncclInProgress;
    } else {
      result = launch(device, parts);
    }
    return cudaSuccess;
  });
  return result;
}

/// Adds a part to the group; the buffers have to hold so many times `count` elements.
ncclResult_t add(Part part, size_t source_count, size_t out_count, cudaStream_t handle) {
  bool valid = false;
  const cudaError_t status = call([&](Device& device) {
    const size_t bytes = part.request.count * bytes_of(part.request.type);
    part.stream = device.find(handle);
    valid = part.stream != nullptr && part.comm->ready &&
            (source_count == 0 || device.memory.contains(part.source, bytes * source_count)) &&
            (out_count == 0 || device.memory.contains(part.out, bytes * out_count));
    return cudaSuccess;
  });
  if (status != cudaSuccess || !valid) {
    return status != cudaSuccess ? ncclUnhandledCudaError : ncclInvalidArgument;
  }
  group.parts.push_back(part);
  return group.depth > 0 ? ncclSuccess : launch_group();
}

ncclResult_t collective(const Request& request, const void* source, void* out, ncclComm_t comm,
                        cudaStream_t stream) {
  const auto ranks = static_cast<size_t>(comm->clique->size);
  const bool is_root = request.root == comm->rank;
  const size_t sources = request.verb == Verb::kReduceScatter           ? ranks
                         : request.verb == Verb::kBroadcast && !is_root ? 0
                                                                        : 1;
  const size_t outs = request.verb == Verb::kAllGather            ? ranks
                      : request.verb == Verb::kReduce && !is_root ? 0
                                                                  : 1;
  return add({request,
              {-1, -1, comm->calls++},
              static_cast<size_t>(comm->rank),
              ranks,
              source,
              out,
              comm,
              nullptr},
             sources, outs, stream);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static uint64_t made = 0;
  call([&](Device&) {
    ++made;
    *id = {};
    std::memcpy(id->internal, &made, sizeof(made));
    return cudaSuccess;
  });
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  static std::map<std::string, std::shared_ptr<Clique>> cliques;  // by unique id
  if (size < 1 || rank < 0 || rank >= size) {
    return ncclInvalidArgument;
  }
  const bool blocking = config == nullptr || config->blocking != 0;
  ncclResult_t result = ncclUnhandledCudaError;
  call([&](Device&) {
    auto& clique = cliques[std::string(id.internal, sizeof(id.internal))];
    clique = clique == nullptr ? std::make_shared<Clique>(size) : clique;
    *comm = new ncclComm{.clique = clique, .rank = rank, .blocking = blocking, .ready = blocking};
    result = clique->size != size
                 ? fail(*clique, ncclInvalidArgument, "the ranks name different numbers of ranks")
             : !clique->devices.insert(host_thread().device).second
                 ? fail(*clique, ncclInvalidUsage, "two ranks are on one device")
             : blocking ? ncclSuccess
                        : ncclInProgress;
    return cudaSuccess;
  });
  return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  call([&](Device&) {
    fail(*comm->clique, ncclSystemError, "a rank has aborted");
    give_up(*comm->clique);
    return cudaSuccess;
  });
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  call([&](Device& device) {
    const Clique& clique = *comm->clique;
    if (!comm->ready && std::ssize(clique.devices) == clique.size && device.random.below(2) == 0) {
      comm->ready = true;
      launch(device, std::exchange(comm->deferred, {}));
    }
    *error = clique.error != ncclSuccess ? clique.error
             : comm->ready               ? ncclSuccess
                                         : ncclInProgress;
    return cudaSuccess;
  });
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess           ? "no error"
         : result == ncclInvalidUsage    ? "invalid usage"
         : result == ncclInvalidArgument ? "invalid argument"
         : result == ncclRemoteError     ? "remote error"
                                         : "unhandled error";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr) {
    return "";
  }
  call([&](Device&) {
    comm->text = comm->clique->text;
    return cudaSuccess;
  });
  return comm->text.c_str();
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() { return --group.depth == 0 ? launch_group() : ncclSuccess; }

ncclResult_t ncclSend(const void* source, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add({{Verb::kTransfer, count, type, ncclSum, 0},
              {comm->rank, peer, comm->sent[peer]++},
              0,
              2,
              source,
              nullptr,
              comm,
              nullptr},
             1, 0, stream);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add({{Verb::kTransfer, count, type, ncclSum, 0},
              {peer, comm->rank, comm->received[peer]++},
              1,
              2,
              nullptr,
              out,
              comm,
              nullptr},
             0, 1, stream);
}

ncclResult_t ncclAllReduce(const void* source, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({Verb::kAllReduce, count, type, op, 0}, source, out, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* source, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective({Verb::kReduceScatter, count, type, op, 0}, source, out, comm, stream);
}
ncclResult_t ncclAllGather(const void* source, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective({Verb::kAllGather, count, type, ncclSum, 0}, source, out, comm, stream);
}
ncclResult_t ncclReduce(const void* source, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({Verb::kReduce, count, type, op, root}, source, out, comm, stream);
}
ncclResult_t ncclBroadcast(const void* source, void* out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective({Verb::kBroadcast, count, type, ncclSum, root}, source, out, comm, stream);
}
