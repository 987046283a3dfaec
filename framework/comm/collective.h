#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "framework/comm/communicator.h"

namespace zerolab {

class Backend;

/// One rank's call of a verb. All but `data` must be equal on all ranks.
struct Collective {
  CollectiveOp op = CollectiveOp::kBarrier;
  CommTag tag;
  DType dtype = DType::kFloat32;
  int64_t numel = 0;     ///< of the whole buffer
  SlicePart part = {};   ///< of all_gather; the default where it is all
  int root = -1;         ///< of reduce and broadcast
  double divisor = 1.0;  ///< of the reductions
  std::byte* data = nullptr;
};

bool same_call(const Collective& a, const Collective& b);
/// Elements of the buffer that take part: all, or the parts of `size` slices.
int64_t exchanged_numel(const Collective& call, int size);

/// What errors call it: "all_gather(parameter, bucket 2: h.0.ln_1.weight)".
std::string name_of(const Collective& call);
/// With all that must agree: "reduce(gradient, bucket 2: h.0.ln_1.weight, 64 bytes of fp32, root 1,
/// divisor 4)".
std::string describe(const Collective& call);

/// Bytes that one rank has sent and received; counted by whoever moves them.
struct Traffic {
  std::atomic<int64_t> sent = 0;
  std::atomic<int64_t> received = 0;
};

/// Bytes that `rank` of `size` sends and receives for `call` by the formula (`bytes_sent_by`).
struct FormulaBytes {
  int64_t sent;
  int64_t received;
};
FormulaBytes formula_bytes(const Collective& call, int rank, int size);

/// Moves `rank`'s part of a collective between ranks that share memory, and counts it; `calls` and
/// `traffic` are in rank order. All parts together are the collective; they may run in any order
/// and at the same time, once every rank's buffer is ready. A buffer may be touched until every
/// part is done.
void move_part(int rank, std::span<const Collective> calls, Backend& backend,
               std::span<Traffic> traffic);

}  // namespace zerolab
