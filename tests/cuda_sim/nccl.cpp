// NCCL: collectives of streams, executed when all ranks' streams have come to them.

#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda_sim/device.h"
#include "framework/core/half.h"

namespace zerolab::cuda_sim {
namespace {

enum class Verb { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast };

/// What all ranks say alike of one collective. `count`: of a rank's smaller buffer, in elements.
struct Request {
  Verb verb;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;

  bool operator==(const Request&) const = default;
};

struct Collective {
  Collective(const Request& wanted, size_t ranks) : request(wanted), sources(ranks), outs(ranks) {}

  Request request;
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> outs;
  std::vector<CUstream_st*> streams;  ///< of ranks that called and have not arrived
  size_t arrived = 0;
  std::shared_ptr<Mark> done = std::make_shared<Mark>();
};

/// The ranks of one unique id.
struct Clique {
  std::map<uint64_t, std::shared_ptr<Collective>>
      collectives;  ///< unfinished ones, by order of calls
  int joined = 0;
  ncclResult_t error = ncclSuccess;
  std::string text;
};

size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 4;
  }
}

/// out = the sources' elements combined in rank order; 16-bit ones in fp32, rounded once.
template <typename T>
void combine(const std::vector<const std::byte*>& sources, size_t count, ncclRedOp_t op,
             std::byte* out) {
  using Number = Compute<T>;
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i) {
    const auto of = [&](const std::byte* source) {
      return static_cast<Number>(reinterpret_cast<const T*>(source)[i]);
    };
    Number total = of(sources[0]);
    for (size_t rank = 1; rank < sources.size(); ++rank) {
      const Number next = of(sources[rank]);
      total = op == ncclMax   ? std::max(total, next)
              : op == ncclMin ? std::min(total, next)
                              : static_cast<Number>(total + next);
    }
    result[i] = static_cast<T>(op == ncclAvg ? total / static_cast<Number>(sources.size()) : total);
  }
  std::memcpy(out, result.data(), count * sizeof(T));
}

void combine(const Collective& collective, size_t count, std::byte* out) {
  const ncclRedOp_t op = collective.request.op;
  switch (collective.request.type) {
    case ncclFloat16:
      return combine<Float16>(collective.sources, count, op, out);
    case ncclBfloat16:
      return combine<BFloat16>(collective.sources, count, op, out);
    case ncclFloat64:
      return combine<double>(collective.sources, count, op, out);
    case ncclInt32:
      return combine<int32_t>(collective.sources, count, op, out);
    case ncclInt64:
      return combine<int64_t>(collective.sources, count, op, out);
    default:
      return combine<float>(collective.sources, count, op, out);
  }
}

/// A rank's buffer may be a part of what it receives (NCCL's "in place"), so that all is computed
/// before anything is written.
void execute(const Collective& collective) {
  const Request& request = collective.request;
  const size_t ranks = collective.sources.size();
  const size_t bytes = request.count * bytes_of(request.type);
  const bool gathers = request.verb == Verb::kAllGather;
  const bool scatters = request.verb == Verb::kReduceScatter;
  std::vector<std::byte> result(bytes * (gathers || scatters ? ranks : 1));
  if (gathers) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::memcpy(&result[rank * bytes], collective.sources[rank], bytes);
    }
  } else if (request.verb == Verb::kBroadcast) {
    std::memcpy(result.data(), collective.sources[static_cast<size_t>(request.root)], bytes);
  } else {
    combine(collective, request.count * (scatters ? ranks : 1), result.data());
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (request.verb != Verb::kReduce || rank == static_cast<size_t>(request.root)) {
      std::memcpy(collective.outs[rank], &result[scatters ? rank * bytes : 0],
                  scatters ? bytes : result.size());
    }
  }
}

/// Ends all collectives, as they are.
void give_up(Clique& clique, ncclResult_t error, std::string text) {
  if (clique.error == ncclSuccess) {
    clique.error = error;
    clique.text = std::move(text);
  }
  for (auto& [number, collective] : clique.collectives) {
    collective->done->reached = true;
  }
  clique.collectives.clear();
  Device::instance().notify();
}

}  // namespace
}  // namespace zerolab::cuda_sim

using namespace zerolab::cuda_sim;

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int size;
  int rank;
  uint64_t calls = 0;
};

namespace {

ncclResult_t enqueue(const Request& request, const void* source, void* out, ncclComm_t comm,
                     cudaStream_t handle) {
  Clique& clique = *comm->clique;
  ncclResult_t result = ncclSuccess;
  const cudaError_t status = call([&](Device& device) {
    CUstream_st* stream = device.find(handle);
    const size_t bytes = request.count * bytes_of(request.type);
    const auto ranks = static_cast<size_t>(comm->size);
    const bool receives = request.verb != Verb::kReduce || request.root == comm->rank;
    const bool sends = request.verb != Verb::kBroadcast || request.root == comm->rank;
    if (stream == nullptr ||
        (sends && !device.memory.contains(
                      source, bytes * (request.verb == Verb::kReduceScatter ? ranks : 1))) ||
        (receives &&
         !device.memory.contains(out, bytes * (request.verb == Verb::kAllGather ? ranks : 1)))) {
      return cudaErrorInvalidValue;
    }
    const uint64_t number = comm->calls++;
    if (clique.error != ncclSuccess) {
      result = clique.error;
      return cudaSuccess;
    }
    auto& collective = clique.collectives[number];
    if (collective == nullptr) {
      collective = std::make_shared<Collective>(request, ranks);
    } else if (collective->request != request) {
      give_up(clique, ncclInvalidUsage, "ranks call different collectives");
      result = clique.error;
      return cudaSuccess;
    }
    collective->sources[static_cast<size_t>(comm->rank)] = static_cast<const std::byte*>(source);
    collective->outs[static_cast<size_t>(comm->rank)] = static_cast<std::byte*>(out);
    collective->streams.push_back(stream);
    collective->done->stream = collective->streams.front();
    device.enqueue(stream, [clique = comm->clique, collective = collective, stream, number] {
      std::erase(collective->streams, stream);
      collective->done->stream =
          collective->streams.empty() ? nullptr : collective->streams.front();
      if (++collective->arrived == collective->sources.size() && !collective->done->reached) {
        execute(*collective);
        collective->done->reached = true;
        clique->collectives.erase(number);
      }
    });
    device.enqueue(
        stream, [] {}, collective->done);
    device.notify();
    return cudaSuccess;
  });
  return status == cudaSuccess             ? result
         : status == cudaErrorInvalidValue ? ncclInvalidArgument
                                           : ncclUnhandledCudaError;
}

}  // namespace

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

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  static std::map<std::string, std::shared_ptr<Clique>> incomplete;  // by unique id
  if (size < 1 || rank < 0 || rank >= size) {
    return ncclInvalidArgument;
  }
  call([&](Device&) {
    const std::string key(id.internal, sizeof(id.internal));
    auto& known = incomplete[key];
    known = known == nullptr ? std::make_shared<Clique>() : known;
    const std::shared_ptr<Clique> clique = known;
    if (++clique->joined == size) {
      incomplete.erase(key);
    }
    *comm = new ncclComm{clique, size, rank};
    return cudaSuccess;
  });
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  call([&](Device&) {
    give_up(*comm->clique, ncclSystemError, "a rank has aborted");
    return cudaSuccess;
  });
  return ncclCommDestroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  call([&](Device&) {
    *error = comm->clique->error;
    return cudaSuccess;
  });
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess           ? "no error"
         : result == ncclInvalidUsage    ? "invalid usage"
         : result == ncclInvalidArgument ? "invalid argument"
                                         : "unhandled error";
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm == nullptr ? "" : comm->clique->text.c_str();
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }

ncclResult_t ncclAllReduce(const void* source, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Verb::kAllReduce, count, type, op, 0}, source, out, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* source, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Verb::kReduceScatter, count, type, op, 0}, source, out, comm, stream);
}
ncclResult_t ncclAllGather(const void* source, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Verb::kAllGather, count, type, ncclSum, 0}, source, out, comm, stream);
}
ncclResult_t ncclReduce(const void* source, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Verb::kReduce, count, type, op, root}, source, out, comm, stream);
}
ncclResult_t ncclBroadcast(const void* source, void* out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Verb::kBroadcast, count, type, ncclSum, root}, source, out, comm, stream);
}
