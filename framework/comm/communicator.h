#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "framework/tensor/rank_context.h"
#include "framework/tensor/tensor.h"

namespace zerolab {

enum class CollectiveOp : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kReduce,
  kBroadcast,
  kBarrier
};
inline constexpr int kNumCollectiveOps = 6;
std::string_view name_of(CollectiveOp op);

/// What a collective carries: part of its identity, compared between ranks, and the key of the
/// ledger.
enum class Purpose : uint8_t {
  kGradient,
  kParameter,
  kControl,
  kState  ///< optimizer state and master weights that move when the stage changes
};
std::string_view name_of(Purpose purpose);
struct CommTag {
  Purpose purpose = Purpose::kControl;
  int bucket = -1;
  /// The parameters that it carries, for error messages only; null: not told. Shared, since a
  /// stream may hold the verb longer than its caller lives.
  std::shared_ptr<const std::string> description = nullptr;

  /// Ranks must agree on purpose and bucket; `description` is not compared.
  bool operator==(const CommTag& other) const {
    return purpose == other.purpose && bucket == other.bucket;
  }
};

/// The elements [begin, begin + numel) of each slice of a buffer; numel -1: to the slice's end.
struct SlicePart {
  int64_t begin = 0;
  int64_t numel = -1;

  bool operator==(const SlicePart&) const = default;
};

/// Counts of one rank, by op and purpose.
class CommunicationLedger {
 public:
  struct Entry {
    int64_t calls = 0;
    int64_t bytes_sent = 0;
    int64_t bytes_received = 0;
    double wait_ms = 0;      ///< for peers
    double transfer_ms = 0;  ///< moving and adding bytes

    Entry& operator+=(const Entry& other);
  };
  using Key = std::pair<CollectiveOp, Purpose>;

  /// Thread-safe.
  void add(CollectiveOp op, const CommTag& tag, const Entry& entry);
  std::map<Key, Entry> entries() const;
  /// Bytes sent since the last `reset`, of one purpose.
  int64_t bytes_sent(Purpose purpose) const;
  void reset() { take(); }
  /// The entries since the last one, at once, so that no verb that is just ending is lost between.
  std::map<Key, Entry> take();

 private:
  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

/// Collectives of one rank within one process group. All ranks of the group call the same verbs in
/// the same order with equal sizes; a difference is an error on every rank that names both calls, a
/// silent peer is an error after the timeout, a failed peer ends all at once: never a hang.
///
/// A verb is put on `stream` and ordered by it; its tensors stay untouched until the stream has
/// passed it. Sums are made in rank order in fp32, divided by `divisor`, then rounded once: the
/// same bits on every rank. Verbs of one rank run in the order of their calls, also across streams.
/// Driven by the rank's host thread; only `abort` may come from any thread.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Every rank ends with the sum of all buffers divided by `divisor`, in place. fp32, bf16 or
  /// fp16, as in all reductions.
  virtual void all_reduce(Stream& stream, const Tensor& buffer, double divisor,
                          const CommTag& tag) = 0;
  /// buffer has size() equal slices; rank r's slice becomes the sum of everyone's slice r over
  /// `divisor`, in place. The other slices keep their bytes, which mean nothing any more. Throws
  /// unless size() divides numel.
  virtual void reduce_scatter(Stream& stream, const Tensor& buffer, double divisor,
                              const CommTag& tag) = 0;
  /// buffer has size() equal slices; `part` of slice r of every buffer becomes that of rank r, in
  /// place; nothing else is touched or sent. Any dtype. An empty part is still a call; throws
  /// unless the part lies within a slice.
  virtual void all_gather(Stream& stream, const Tensor& buffer, const CommTag& tag,
                          const SlicePart& part) = 0;
  /// Of whole slices.
  void all_gather(Stream& stream, const Tensor& buffer, const CommTag& tag) {
    all_gather(stream, buffer, tag, SlicePart());
  }
  /// `root`'s buffer becomes the sum of all over `divisor`; the others' keep their bytes. A
  /// pipelined chain.
  virtual void reduce(Stream& stream, const Tensor& buffer, int root, double divisor,
                      const CommTag& tag) = 0;
  /// Every buffer becomes `root`'s. Any dtype.
  virtual void broadcast(Stream& stream, const Tensor& buffer, int root, const CommTag& tag) = 0;
  /// Returns on the host when every rank has called it and this rank's earlier verbs are done.
  virtual void barrier() = 0;

  /// Ends every verb, now and later, of all ranks with an error that says that this rank failed and
  /// why; the others' also says at which verb they waited.
  virtual void abort(std::string_view reason) = 0;

  /// With all verbs that have ended.
  CommunicationLedger& ledger() {
    enter_ended();
    return *ledger_;
  }

 protected:
  /// Enters the verbs that have ended since, where they do not do so themselves.
  virtual void enter_ended() {}
  /// For verbs that a stream still holds when the communicator has gone.
  const std::shared_ptr<CommunicationLedger>& shared_ledger() const { return ledger_; }

 private:
  const std::shared_ptr<CommunicationLedger> ledger_ = std::make_shared<CommunicationLedger>();
};

/// The reason of a rank that does not know it yet: its exception is still to be caught.
inline constexpr std::string_view kUnknownException = "an exception ended it";

/// Aborts when an exception passes it, so that destructors that wait for a stream find its verbs
/// ended: without it a rank would wait for peers that wait for it. Declared after whatever has such
/// destructors (streams, the engine).
class AbortOnUnwind {
 public:
  explicit AbortOnUnwind(Communicator& communicator) : communicator_(communicator) {}
  ~AbortOnUnwind() {
    if (std::uncaught_exceptions() > exceptions_) {
      communicator_.abort(kUnknownException);
    }
  }
  AbortOnUnwind(const AbortOnUnwind&) = delete;
  AbortOnUnwind& operator=(const AbortOnUnwind&) = delete;

 private:
  Communicator& communicator_;
  const int exceptions_ = std::uncaught_exceptions();
};

/// All-reduce and `reduce` cut `numel` elements into one chunk a rank, as even as possible: where
/// that of `rank` begins, and where that of `rank - 1` ends.
constexpr int64_t chunk_begin(int64_t numel, int rank, int size) { return numel * rank / size; }

/// Bytes that a rank sends for one verb on `numel` elements of `element_bytes` each among `size`
/// ranks (a ring's volume, which is optimal for all_reduce, reduce_scatter and all_gather): the
/// formula that counted bytes are held against, and what dry runs count. For an all_gather of a
/// part, `numel` is that of all slices' parts. `reduce` and `broadcast` are chains along the ranks
/// that end at, or begin with, `root`: all but the last in the chain send the buffer once.
int64_t bytes_sent_by(CollectiveOp op, int64_t numel, int64_t element_bytes, int rank, int size,
                      int root);

}  // namespace zerolab
