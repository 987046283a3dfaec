#include "framework/comm/collective.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "framework/tensor/backend.h"

namespace zerolab {
namespace {

bool has_divisor(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduceScatter ||
         op == CollectiveOp::kReduce;
}

std::string tag_text(const CommTag& tag) {
  std::string text(name_of(tag.purpose));
  if (tag.bucket >= 0) {
    text += fmt::format(", bucket {}", tag.bucket);
  }
  if (tag.description != nullptr) {
    text += fmt::format(": {}", *tag.description);
  }
  return text;
}

/// One rank's part of a collective: the buffers of all, and who counts what.
class Part {
 public:
  Part(int rank, std::span<const Collective> calls, Backend& backend, std::span<Traffic> traffic)
      : rank_(rank),
        size_(static_cast<int>(calls.size())),
        calls_(calls),
        backend_(backend),
        traffic_(traffic) {}

  /// `rank`'s chunk of every buffer is read and written by this part alone: no rank has to wait
  /// for another between the sum and its distribution.
  void all_reduce() {
    const auto [begin, bytes] = chunk();
    sum_into(rank_, begin, bytes);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) {
        count(peer, rank_, bytes);
        copy(rank_, peer, begin, bytes);
        count(rank_, peer, bytes);
      }
    }
  }

  void reduce_scatter() {
    const int64_t slice = bytes() / size_;
    sum_into(rank_, rank_ * slice, slice);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) {
        count(peer, rank_, slice);
      }
    }
  }

  void all_gather() {
    const Collective& call = calls_[rank_];
    const int64_t slice = bytes() / size_;
    const int64_t begin = call.part.begin * element();
    const int64_t part = exchanged_numel(call, size_) / size_ * element();
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) {
        copy(peer, rank_, peer * slice + begin, part);
        count(peer, rank_, part);
      }
    }
  }

  /// Every rank adds a chunk up for the root. What each link of the chain would carry is counted.
  void reduce() {
    const auto [begin, length] = chunk();
    sum_into(calls_[rank_].root, begin, length);
    if (rank_ != calls_[rank_].root) {
      count(rank_, (rank_ + 1) % size_, bytes());
    }
  }

  void broadcast() {
    const int root = calls_[rank_].root;
    if (rank_ != root) {
      copy(root, rank_, 0, bytes());
      count((rank_ + size_ - 1) % size_, rank_, bytes());
    }
  }

 private:
  struct Bytes {
    int64_t begin;
    int64_t bytes;
  };

  int64_t element() const { return size_of(calls_[rank_].dtype); }
  int64_t bytes() const { return calls_[rank_].numel * element(); }

  Bytes chunk() const {
    const int64_t numel = calls_[rank_].numel;
    const int64_t begin = chunk_begin(numel, rank_, size_);
    const int64_t end = chunk_begin(numel, rank_ + 1, size_);
    return {begin * element(), (end - begin) * element()};
  }

  void sum_into(int target, int64_t begin, int64_t bytes) {
    const double divisor = calls_[rank_].divisor;
    if (bytes == 0 || (size_ == 1 && divisor == 1.0)) {
      return;
    }
    std::vector<const std::byte*> sources;
    for (const Collective& call : calls_) {
      sources.push_back(call.data + begin);
    }
    backend_.reduce_in_order(sources, calls_[rank_].dtype, divisor,
                             {calls_[target].data + begin, static_cast<size_t>(bytes)});
  }

  void copy(int source, int target, int64_t begin, int64_t bytes) {
    backend_.copy_at_once({calls_[source].data + begin, static_cast<size_t>(bytes)},
                          calls_[target].data + begin);
  }

  void count(int sender, int receiver, int64_t bytes) {
    traffic_[sender].sent += bytes;
    traffic_[receiver].received += bytes;
  }

  const int rank_;
  const int size_;
  const std::span<const Collective> calls_;
  Backend& backend_;
  const std::span<Traffic> traffic_;
};

}  // namespace

bool same_call(const Collective& a, const Collective& b) {
  return a.op == b.op && a.tag == b.tag && a.dtype == b.dtype && a.numel == b.numel &&
         a.part == b.part && a.root == b.root && a.divisor == b.divisor;
}

int64_t exchanged_numel(const Collective& call, int size) {
  return call.part == SlicePart() ? call.numel : call.part.numel * size;
}

FormulaBytes formula_bytes(const Collective& call, int rank, int size) {
  // In a chain a rank receives what its predecessor sends; in a ring, as much as it sends.
  const bool chain = call.op == CollectiveOp::kReduce || call.op == CollectiveOp::kBroadcast;
  const int sender = chain ? (rank + size - 1) % size : rank;
  const int64_t numel = exchanged_numel(call, size);
  const int64_t element = size_of(call.dtype);
  return {bytes_sent_by(call.op, numel, element, rank, size, call.root),
          bytes_sent_by(call.op, numel, element, sender, size, call.root)};
}

std::string name_of(const Collective& call) {
  return call.op == CollectiveOp::kBarrier
             ? "barrier()"
             : fmt::format("{}({})", name_of(call.op), tag_text(call.tag));
}

std::string describe(const Collective& call) {
  if (call.op == CollectiveOp::kBarrier) {
    return name_of(call);
  }
  std::string text = fmt::format("{}({}, {} bytes of {}", name_of(call.op), tag_text(call.tag),
                                 call.numel * size_of(call.dtype), name_of(call.dtype));
  if (call.part != SlicePart()) {
    text += fmt::format(", elements [{}, {}) of each slice", call.part.begin,
                        call.part.begin + call.part.numel);
  }
  if (call.root >= 0) {
    text += fmt::format(", root {}", call.root);
  }
  if (has_divisor(call.op)) {
    text += fmt::format(", divisor {}", call.divisor);
  }
  return text + ")";
}

void move_part(int rank, std::span<const Collective> calls, Backend& backend,
               std::span<Traffic> traffic) {
  Part part(rank, calls, backend, traffic);
  switch (calls[rank].op) {
    case CollectiveOp::kAllReduce:
      return part.all_reduce();
    case CollectiveOp::kReduceScatter:
      return part.reduce_scatter();
    case CollectiveOp::kAllGather:
      return part.all_gather();
    case CollectiveOp::kReduce:
      return part.reduce();
    case CollectiveOp::kBroadcast:
      return part.broadcast();
    case CollectiveOp::kBarrier:
      return;
  }
}

}  // namespace zerolab
