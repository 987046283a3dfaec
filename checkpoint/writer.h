#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/snapshot.h"

namespace zerolab::checkpoint {

/// What became of one checkpoint.
struct Saved {
  int64_t step = 0;
  std::string path;       ///< empty where it failed
  std::string error;      ///< why it failed
  int64_t bytes = 0;      ///< of all files
  double blocked_ms = 0;  ///< how long training stood still, on the rank where it was longest
  double seconds = 0;     ///< from its first rank's file to its name
};

/// Writes the checkpoints of a run while it trains on: one thread a rank, each its own file. The
/// one that ends last writes the manifest and gives the checkpoint its name. If any rank's file
/// failed or never came, the older checkpoints stay as they are.
class Writer {
 public:
  /// Keeps the newest `keep` checkpoints (0: all).
  Writer(Folder folder, int ranks, int64_t keep);
  /// Waits for what is being written; removes what is not whole.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// What has ended since the last call, in order.
  std::vector<Saved> take_saved();

 private:
  friend class RankWriter;
  /// Begins to write `snapshot`, which must not change until `wait(rank)`.
  void write(int rank, const Snapshot& snapshot, const Manifest& manifest, double blocked_ms);
  /// Returns when `rank`'s file is written.
  void wait(int rank);

  struct Pending {
    Manifest manifest;
    int arrived = 0;
    double blocked_ms = 0;
    std::string error;
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  };
  void write_file(int rank, const Snapshot& snapshot, int64_t step);
  void commit(int64_t step, const Pending& pending);

  const Folder folder_;
  const int ranks_;
  const int64_t keep_;
  std::vector<std::future<void>> writing_;  ///< by rank
  std::mutex mutex_;                        ///< guards what follows
  std::map<int64_t, Pending> pending_;      ///< by step
  std::vector<Saved> saved_;
};

/// One rank's part in a writer, for its thread. Goes before the snapshot and the writer do.
class RankWriter {
 public:
  RankWriter(Writer& writer, int rank, Snapshot& snapshot)
      : writer_(writer), rank_(rank), snapshot_(snapshot) {}
  ~RankWriter() { wait(); }
  RankWriter(const RankWriter&) = delete;
  RankWriter& operator=(const RankWriter&) = delete;

  /// Waits until the file before is written, takes the snapshot, and begins to write it. All ranks
  /// do so in the same order of steps; `manifest` is all but its files, alike on all ranks.
  void save(const Manifest& manifest);
  /// Returns when the file is written.
  void wait() { writer_.wait(rank_); }

 private:
  Writer& writer_;
  const int rank_;
  Snapshot& snapshot_;
};

}  // namespace zerolab::checkpoint
