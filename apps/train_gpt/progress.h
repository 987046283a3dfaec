#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace zerolab::app {

/// What the output can show. A `live` line is rewritten in place; else each line stays.
struct ProgressStyle {
  bool live = false;
  bool color = false;
  int columns = 80;

  /// Live on a terminal other than TERM=dumb, in colour unless NO_COLOR is set.
  static ProgressStyle of(std::FILE* out);
};

struct ProgressSample {
  int64_t step = 0;  ///< Steps done.
  int64_t steps = 0;
  double loss = 0;
  double tokens_per_s = 0;
  int64_t bytes_per_rank = 0;  ///< Memory of the rank that has most.
  double seconds_left = 0;     ///< Negative: not known yet.
};

/// Shows how far training is. Not thread-safe: rank 0 alone calls it. `out` must outlive it; null
/// shows nothing.
class Progress {
 public:
  /// Plain lines come every `log_every` steps and at the last; a live line at every step.
  Progress(std::FILE* out, ProgressStyle style, int64_t log_every);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressSample& sample);
  /// A line that stays, e.g. an evaluation's result, above the live line.
  void note(std::string_view text);
  /// Leaves the cursor at the start of a fresh line. The destructor does it too.
  void finish();

 private:
  void print(std::string_view text);

  std::FILE* out_;
  ProgressStyle style_;
  int64_t log_every_;
  std::string live_line_;
};

/// "0:07", "12:34", "2:05:00"; "--:--" for a negative number.
std::string format_duration(double seconds);
/// "512 B", "1.5 KiB", "3.2 GiB".
std::string format_bytes(int64_t bytes);
/// "950", "12.3k", "4.5M".
std::string format_count(double count);

}  // namespace zerolab::app
