#include "apps/train_gpt/terminal/block.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/train_gpt/text/display_width.h"

namespace zerolab::app {
namespace {

constexpr std::string_view kEraseLine = "\x1b[K";
constexpr std::string_view kEraseBelow = "\x1b[J";
// Without wrapping a width that was judged wrongly costs the end of a line, not the block's place.
constexpr std::string_view kBegin = "\x1b[?25l\x1b[?7l";  // no cursor, no wrapping
constexpr std::string_view kEnd = "\x1b[?7h\x1b[?25h";

/// Of lines that a terminal has wrapped when it became narrower.
int rows_of(const std::vector<std::string>& lines, int columns) {
  int rows = 0;
  for (const std::string& line : lines) {
    rows += std::max(1, (display_width(line) + columns - 1) / columns);
  }
  return rows;
}

}  // namespace

std::string TerminalBlock::draw(std::string_view above, std::vector<std::string> lines,
                                int columns) {
  const int rows = rows_of(lines_, columns);
  const bool moves = !above.empty() || rows != static_cast<int>(lines_.size());
  std::string text = rows > 0 ? fmt::format("\x1b[{}A\r", rows) : "\r";
  if (moves) {
    text += fmt::format("{}{}", kEraseBelow, above);
  }
  text += kBegin;
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool stands = !moves && i < lines_.size() && lines[i] == lines_[i];
    text += stands ? "\n" : fmt::format("{}{}\n", lines[i], kEraseLine);
  }
  text += fmt::format("{}{}", kEraseBelow, kEnd);
  lines_ = std::move(lines);
  return text;
}

}  // namespace zerolab::app
