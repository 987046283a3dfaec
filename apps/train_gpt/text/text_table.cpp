#include "apps/train_gpt/text/text_table.h"

#include <algorithm>

#include "apps/train_gpt/text/display_width.h"

namespace zerolab::app {
namespace {

TableColumn column_at(const std::vector<TableColumn>& columns, size_t index) {
  return index < columns.size() ? columns[index] : TableColumn();
}

std::vector<int> column_widths(const std::vector<TableRow>& rows,
                               const std::vector<TableColumn>& columns) {
  std::vector<int> widths;
  for (const TableRow& row : rows) {
    if (row.size() == 1) {
      continue;
    }
    while (widths.size() < row.size()) {
      widths.push_back(column_at(columns, widths.size()).least_width);
    }
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(row[column]));
    }
  }
  return widths;
}

std::string line_of(const TableRow& row, const std::vector<int>& widths,
                    const std::vector<TableColumn>& columns) {
  std::string line;
  for (size_t column = 0; column < row.size(); ++column) {
    const std::string& cell = row[column];
    const std::string room(widths[column] - display_width(cell), ' ');
    line += "  " + (column_at(columns, column).align == Align::kLeft ? cell + room : room + cell);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

}  // namespace

std::string text_table(const std::vector<TableRow>& rows, const std::vector<TableColumn>& columns) {
  const std::vector<int> widths = column_widths(rows, columns);
  std::string text;
  for (const TableRow& row : rows) {
    text += (row.size() == 1 ? row.front() : line_of(row, widths, columns)) + "\n";
  }
  return text;
}

}  // namespace zerolab::app
