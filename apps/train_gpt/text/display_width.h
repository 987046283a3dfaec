#pragma once

#include <string_view>

namespace zerolab::app {

/// Columns that `text` takes on a terminal. Characters of East Asia and emoji take two, combining
/// marks and colour codes none, and a byte that is no UTF-8 one, for the sign shown in its place.
int display_width(std::string_view text);

}  // namespace zerolab::app
