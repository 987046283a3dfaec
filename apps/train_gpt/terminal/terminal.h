#pragma once

#include <cstdio>
#include <string_view>

namespace zerolab::app {

/// What an output can show, and how large it is.
struct Terminal {
  bool live = false;  ///< What was printed can be rewritten in place.
  bool color = false;
  bool unicode = false;
  int columns = 80;
  int rows = 24;

  /// Live on a terminal other than TERM=dumb, in colour unless NO_COLOR is set, in Unicode where
  /// the locale is UTF-8.
  static Terminal of(std::FILE* out);
  /// Asks for the size again, which the user may have changed; none: it stays as it is.
  void measure(std::FILE* out);
};

/// Columns that `text` takes on a terminal: a character is one, but for colour codes (none) and
/// those of East Asia and emoji (two).
int display_width(std::string_view text);

}  // namespace zerolab::app
