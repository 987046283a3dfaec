#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "data/token_dataset.h"
#include "data/windows.h"

namespace zerolab::data {

/// Sequential takes the windows as they lie; shuffled takes every epoch's in a new seeded order.
enum class Order : uint8_t { kSequential, kShuffled };

/// Throws `ConfigError` on a name that is neither "sequential" nor "shuffled".
Order parse_order(std::string_view name);

/// One micro-batch of one rank: B rows of T tokens.
struct BatchShape {
  int64_t batch_size = 1;  // B, rows
  int64_t block_size = 1;  // T, tokens a row
  int64_t numel() const { return batch_size * block_size; }
};

/// This rank's place among those that share the data.
struct DataParallel {
  int64_t world_size = 1;
  int64_t rank = 0;
};

/// Gives each rank its rows of the global batch. Row b of micro-batch m at attempted step s on
/// rank r is the global sample g = ((s*k + m)*N + r)*B + b, which is window g mod W of the split,
/// in epoch g / W; shuffled, that epoch's permutation of it. Over W consecutive samples all ranks
/// together see every window once. Every rank has as many micro-batches as any other: an epoch has
/// no short last batch, the next epoch begins within it.
///
/// Without state: a resume asks for its next step. `load` is const and may be called by many
/// threads.
class Loader {
 public:
  struct Options {
    BatchShape shape = {};
    DataParallel group = {};
    int64_t gradient_accumulation_steps = 1;  // k
    Order order = Order::kShuffled;
    uint64_t seed = 0;  // of the shuffle
  };

  /// Throws `ConfigError` if a size is below 1, the rank is outside the group, or the tokens
  /// are too few for one window.
  Loader(TokenView tokens, const Options& options);

  /// Writes B*T inputs and B*T targets, row after row; the spans have exactly that size. Returns
  /// the global sample of the first row. Allocates nothing. Throws `Error` if step < 0 or
  /// micro_batch is outside [0, k).
  int64_t load(int64_t step, int64_t micro_batch, std::span<int32_t> inputs,
               std::span<int32_t> targets) const;

  /// The window that a global sample is.
  int64_t window_of(int64_t sample) const;

  int64_t num_windows() const { return windows_.size(); }
  const Options& options() const { return options_; }

 private:
  Options options_;
  Windows windows_;
};

/// Deals all windows of a split, each once and in order, to the ranks: row b of batch j on rank r
/// is window (j*N + r)*B + b. Every rank gets num_batches() batches, so that collectives match; the
/// last ones may have fewer valid rows, or none.
class EvaluationLoader {
 public:
  /// `max_batches` caps num_batches(); 0 means the whole split. Throws as `Loader` does.
  EvaluationLoader(TokenView tokens, BatchShape shape, DataParallel group, int64_t max_batches = 0);

  int64_t num_batches() const { return num_batches_; }

  /// Rows that all ranks' batches together hold: what a sum over valid rows is divided by.
  int64_t num_rows() const;

  /// Writes B*T inputs and targets; returns the number of valid rows, which come first. The others
  /// are token 0, legal in any model but not to be counted. Throws `Error` if `batch` is
  /// outside [0, num_batches()).
  int64_t load(int64_t batch, std::span<int32_t> inputs, std::span<int32_t> targets) const;

 private:
  BatchShape shape_;
  DataParallel group_;
  Windows windows_;
  int64_t num_batches_;
};

}  // namespace zerolab::data
