#include "cuda_sim/nccl_collective.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "framework/core/half.h"

namespace zerolab::cuda_sim {
namespace {

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

void combine(const Request& request, const std::vector<const std::byte*>& sources, size_t count,
             std::byte* out) {
  const ncclRedOp_t op = request.op;
  switch (request.type) {
    case ncclFloat16:
      return combine<Float16>(sources, count, op, out);
    case ncclBfloat16:
      return combine<BFloat16>(sources, count, op, out);
    case ncclFloat64:
      return combine<double>(sources, count, op, out);
    case ncclInt32:
      return combine<int32_t>(sources, count, op, out);
    case ncclInt64:
      return combine<int64_t>(sources, count, op, out);
    default:
      return combine<float>(sources, count, op, out);
  }
}

}  // namespace

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

void execute(const Request& request, const std::vector<const std::byte*>& sources,
             const std::vector<std::byte*>& outs) {
  const size_t ranks = sources.size();
  const size_t bytes = request.count * bytes_of(request.type);
  const bool gathers = request.verb == Verb::kAllGather;
  const bool scatters = request.verb == Verb::kReduceScatter;
  std::vector<std::byte> result(bytes * (gathers || scatters ? ranks : 1));
  if (request.verb == Verb::kTransfer) {
    std::memcpy(outs[1], sources[0], bytes);
    return;
  }
  if (gathers) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::memcpy(&result[rank * bytes], sources[rank], bytes);
    }
  } else if (request.verb == Verb::kBroadcast) {
    std::memcpy(result.data(), sources[static_cast<size_t>(request.root)], bytes);
  } else {
    combine(request, sources, request.count * (scatters ? ranks : 1), result.data());
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (request.verb != Verb::kReduce || rank == static_cast<size_t>(request.root)) {
      std::memcpy(outs[rank], &result[scatters ? rank * bytes : 0],
                  scatters ? bytes : result.size());
    }
  }
}

}  // namespace zerolab::cuda_sim
