#include "apps/train_gpt/text/text_table.h"

#include <fmt/core.h>

#include <algorithm>

namespace zerolab::app {

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      text += fmt::format("  {:>{}}", row[column], widths[column]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace zerolab::app
