#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

// What NCCL's collectives and transfers compute, once all their ranks have come to them.

namespace zerolab::cuda_sim {

enum class Verb { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast, kTransfer };

/// What all ranks say alike of one collective, or sender and receiver of a transfer. `count`: of a
/// rank's smaller buffer, in elements.
struct Request {
  Verb verb;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;

  bool operator==(const Request&) const = default;
};

size_t bytes_of(ncclDataType_t type);

/// Writes every rank's result. `sources` and `outs` are by rank; those of a transfer are the
/// sender's first. A rank's buffer may be a part of what it receives (NCCL's "in place"), so that
/// all is computed before anything is written.
void execute(const Request& request, const std::vector<const std::byte*>& sources,
             const std::vector<std::byte*>& outs);

}  // namespace zerolab::cuda_sim
