#pragma once

#include <string>
#include <vector>

namespace zerolab::app {

enum class Align { kLeft, kRight };

struct TableColumn {
  Align align = Align::kRight;
  int least_width = 0;
};

using TableRow = std::vector<std::string>;

/// Rows of cells as lines, each column as wide as its widest cell on a terminal. `columns`
/// describes the first columns; those beyond it stand to the right. A row of one cell is a line of
/// its own, such as a title, and widens no column.
std::string text_table(const std::vector<TableRow>& rows,
                       const std::vector<TableColumn>& columns = {});

/// The column of the rows' names.
inline constexpr TableColumn kLeftColumn = {.align = Align::kLeft};

}  // namespace zerolab::app
