#include "apps/train_gpt/text/format.h"

#include <fmt/format.h>

#include <cmath>

namespace zerolab::app {
namespace {

/// Counts in steps of `base` up to the largest prefix that leaves at least 1.
std::string with_prefix(double value, double base, const char* const (&prefixes)[6]) {
  size_t prefix = 0;
  // What one decimal would round up to 1000.0 (or 1024.0) takes the next prefix.
  while (std::abs(value) >= base - 0.05 && prefix + 1 < std::size(prefixes)) {
    value /= base;
    ++prefix;
  }
  return fmt::format("{:.{}f}{}", value, prefix == 0 ? 0 : 1, prefixes[prefix]);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9)) {
    return "--:--";
  }
  const auto total = static_cast<int64_t>(std::llround(seconds));
  const int64_t hours = total / 3600;
  const int64_t minutes = total / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60)
                   : fmt::format("{}:{:02}", minutes, total % 60);
}

std::string format_bytes(int64_t bytes) {
  return with_prefix(static_cast<double>(bytes), 1024,
                     {" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
}

std::string format_count(double count) {
  return with_prefix(count, 1000, {"", "k", "M", "G", "T", "P"});
}

}  // namespace zerolab::app
