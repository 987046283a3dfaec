#pragma once

#include <string>
#include <vector>

namespace zerolab::app {

/// Rows of cells, the title row first, as lines whose columns are aligned to the right.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace zerolab::app
