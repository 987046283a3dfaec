#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zerolab::app {

/// Lines at the end of a terminal's output that are rewritten in place. Each draw leaves the cursor
/// shown, below the block, and colours as they were: the terminal is clean whenever the program
/// ends.
class TerminalBlock {
 public:
  /// What to print, in one piece, to replace the block by `lines`, each narrower than the
  /// terminal's `columns` now. `above`, whole lines or nothing, stays above the block.
  std::string draw(std::string_view above, std::vector<std::string> lines, int columns);
  bool is_drawn() const { return !lines_.empty(); }
  /// Leaves the block as it stands; the next one begins below.
  void end() { lines_.clear(); }

 private:
  std::vector<std::string> lines_;
};

}  // namespace zerolab::app
