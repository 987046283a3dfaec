#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "framework/comm/rank_group.h"

namespace zerolab {

/// Whether this program was built with NCCL.
bool nccl_is_available();
/// "2.28.3" of the library that is linked; empty where it was not built.
std::string nccl_version();

struct NcclOptions {
  double timeout_s = 300.0;  ///< how long a rank waits for a silent peer before it ends the run
  /// Of a rank's memory (Category::kCommunication) for what its peers send to be added; larger
  /// buffers are added up in pieces.
  int64_t staging_bytes = int64_t{64} << 20;
};

/// Of a rank's staging memory, for what one peer sends; one of `size` ranks holds as much for each
/// of its peers.
constexpr int64_t staging_bytes_for_a_peer(const NcclOptions& options, int size) {
  constexpr int64_t kAlignment = 16;
  return std::max<int64_t>(options.staging_bytes / std::max(size - 1, 1) / kAlignment, 1) *
         kAlignment;
}

/// How ranks come to the id by which NCCL joins them: rank 0 gives it, and all take it. Called from
/// the ranks' threads.
class UniqueIdExchange {
 public:
  using Id = std::array<char, 128>;

  virtual ~UniqueIdExchange() = default;
  virtual void give(const Id& id) = 0;
  /// Empty as long as rank 0 has not given it; does not block.
  virtual std::optional<Id> take() = 0;
};

/// Ranks with one GPU each, joined by NCCL; their backends are of `make_cuda_backend`, each of
/// another device, and their streams are gone before the group is. Throws `Error` in a program that
/// was built without NCCL.
///
/// Sums have the bits of a `LocalGroup`'s, which NCCL's own reductions have not: they add in
/// another order, and round 16-bit sums at each hop. So the ranks exchange what is to be added, and
/// each adds its part up in rank order: the volume is a ring's for reduce_scatter and all_reduce;
/// for `reduce` the root receives every rank's buffer.
///
/// No verb waits on the host, except the first ones, in which NCCL connects the ranks. The bytes of
/// the ledger are computed (`formula_bytes`). Waiting for peers is part of NCCL's kernels: all the
/// time of a verb on its stream is entered as transfer, once it has ended.
///
/// A failure of the group aborts what is under way on all devices; host waits for such work throw.
/// A silent rank is noticed when a verb has been on a device's stream for `timeout_s`.
std::unique_ptr<RankGroup> make_nccl_group(int size, const NcclOptions& options = {});

}  // namespace zerolab
