#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/dtype.h"
#include "framework/core/shape.h"
#include "framework/core/stream.h"

namespace zerolab {

/// What a byte of memory is for. Every allocation carries one.
enum class Category : uint8_t {
  kParameters,
  kGradients,        ///< kept until the optimizer step
  kGradientBuckets,  ///< being filled or reduced
  kMasterWeights,
  kOptimizerState,
  kActivations,  ///< saved by the forward, and their gradients
  kLogits,
  kWorkspace,
  kCommunication,
  kControl,
  kCheckpoint,
};
inline constexpr int kNumCategories = 11;
std::string_view name_of(Category category);

/// Bytes by category at one moment.
using CategoryBytes = std::array<int64_t, kNumCategories>;

/// The bytes that one rank holds: now, each category's peak, and what each category held when the
/// total was at its peak. Thread-safe.
class MemoryLedger {
 public:
  struct Snapshot {
    CategoryBytes current = {};
    CategoryBytes peak = {};
    CategoryBytes at_total_peak = {};
    int64_t total = 0;
    int64_t total_peak = 0;

    int64_t current_of(Category category) const { return current[static_cast<int>(category)]; }
    int64_t peak_of(Category category) const { return peak[static_cast<int>(category)]; }
    int64_t at_total_peak_of(Category category) const {
      return at_total_peak[static_cast<int>(category)];
    }
  };
  /// One point of the timeline: what each category held when `phase` ended, of a bucket or of none
  /// (-1), or, where `phase` is empty, after one of the changes that `follow` asks for.
  struct Sample {
    std::string_view phase;  ///< static storage
    int bucket = -1;
    CategoryBytes current = {};
    Clock::time_point time = {};
  };
  /// Of the timeline, which must not grow with the model: what comes after them is left out.
  static constexpr size_t kMaxSamples = 4096;

  /// `limit` in bytes; 0: none.
  explicit MemoryLedger(int64_t limit = 0) : limit_(limit) {}

  /// Throws `Error` with the whole table when the limit would be passed; then nothing is recorded.
  /// Shape and dtype name the allocation.
  void add(Category category, int64_t bytes, const Shape& shape, DType dtype);
  void remove(Category category, int64_t bytes);

  Snapshot snapshot() const;
  /// Peaks start again from what is held now.
  void reset_peaks();
  /// Adds a point to the timeline, which `clear_timeline` empties (the training loop does so once a
  /// step). `phase` has static storage.
  void sample(std::string_view phase, int bucket = -1);
  void clear_timeline();
  /// Whether each change of bytes adds a point too.
  void follow(bool changes);
  std::vector<Sample> timeline() const;
  /// A table of category, bytes now, bytes at peak.
  std::string to_string() const;

 private:
  void changed();

  const int64_t limit_;
  mutable std::mutex mutex_;
  Snapshot bytes_;
  bool follows_ = false;
  std::vector<Sample> timeline_;
};

}  // namespace zerolab
