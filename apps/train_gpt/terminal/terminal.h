#pragma once

#include <cstdio>

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

}  // namespace zerolab::app
