#include "apps/train_gpt/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace zerolab::app {
namespace {

constexpr int kLongestBar = 24;
constexpr int kShortestBar = 6;
constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kPlain = "\x1b[0m";

std::string describe(const ProgressSample& sample) {
  const std::string steps = fmt::format("{}", sample.steps);
  return fmt::format("step {:>{}}/{}  loss {:.4f}  {} tok/s  {}/rank  {} left", sample.step,
                     steps.size(), steps, sample.loss, format_count(sample.tokens_per_s),
                     format_bytes(sample.bytes_per_rank), format_duration(sample.seconds_left));
}

/// "[=====>    ] ", or nothing where there is too little room.
std::string bar(const ProgressSample& sample, const ProgressStyle& style, int room) {
  const int width = std::min(room - 3, kLongestBar);
  if (width < kShortestBar) {
    return "";
  }
  const double done = sample.steps > 0 ? static_cast<double>(sample.step) / sample.steps : 0;
  const int filled = static_cast<int>(std::clamp(done, 0.0, 1.0) * width);
  std::string cells = std::string(filled, '=') + std::string(width - filled, ' ');
  if (filled < width) {
    cells[filled] = '>';
  }
  return style.color ? fmt::format("[{}{}{}] ", kGreen, cells, kPlain)
                     : fmt::format("[{}] ", cells);
}

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

ProgressStyle ProgressStyle::of(std::FILE* out) {
  ProgressStyle style;
  const int descriptor = fileno(out);
  const char* term = std::getenv("TERM");
  style.live = isatty(descriptor) == 1 && term != nullptr && std::string_view(term) != "dumb";
  const char* no_color = std::getenv("NO_COLOR");
  style.color = style.live && (no_color == nullptr || *no_color == '\0');
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.columns = size.ws_col;
  }
  return style;
}

Progress::Progress(std::FILE* out, ProgressStyle style, int64_t log_every)
    : out_(out), style_(style), log_every_(log_every) {}

Progress::~Progress() { finish(); }

void Progress::update(const ProgressSample& sample) {
  std::string text = describe(sample);
  if (style_.live) {
    // The last column stays free: a full line would wrap, and could not be rewritten.
    const int columns = std::max(style_.columns - 1, 1);
    text.resize(std::min<size_t>(text.size(), columns));
    live_line_ = bar(sample, style_, columns - static_cast<int>(text.size())) + text;
    print(fmt::format("{}{}", kClearLine, live_line_));
  } else if (sample.step % log_every_ == 0 || sample.step == sample.steps) {
    print(text + "\n");
  }
}

void Progress::note(std::string_view text) {
  print(live_line_.empty() ? fmt::format("{}\n", text)
                           : fmt::format("{}{}\n{}", kClearLine, text, live_line_));
}

void Progress::finish() {
  if (!live_line_.empty()) {
    print("\n");
    live_line_.clear();
  }
}

void Progress::print(std::string_view text) {
  if (out_ != nullptr) {
    std::fwrite(text.data(), 1, text.size(), out_);
    std::fflush(out_);
  }
}

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
