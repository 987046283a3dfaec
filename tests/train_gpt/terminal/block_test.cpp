#include "apps/train_gpt/terminal/block.h"

#include <gtest/gtest.h>

#include "tests/train_gpt/terminal/screen.h"

namespace zerolab::app {
namespace {

using test::Screen;
using Lines = std::vector<std::string>;

TEST(TerminalBlock, WritesOnlyTheLinesThatHaveChanged) {
  TerminalBlock block;
  EXPECT_FALSE(block.is_drawn());
  EXPECT_EQ(block.draw("", {"title", "one"}, 80),
            "\r\x1b[?25l\x1b[?7ltitle\x1b[K\none\x1b[K\n\x1b[J\x1b[?7h\x1b[?25h");
  EXPECT_EQ(block.draw("", {"title", "two"}, 80),
            "\x1b[2A\r\x1b[?25l\x1b[?7l\ntwo\x1b[K\n\x1b[J\x1b[?7h\x1b[?25h");
  EXPECT_TRUE(block.is_drawn());
}

TEST(TerminalBlock, GrowsShrinksAndKeepsWhatIsAbove) {
  Screen screen(20);
  TerminalBlock block;
  screen.write("before\n");
  screen.write(block.draw("", {"a", "bbb"}, 20));
  screen.write(block.draw("a note that is longer than a row\n", {"a", "ccc", "d"}, 20));
  screen.write("^C");  // what a terminal echoes
  screen.write(block.draw("", {"e", "c"}, 20));
  EXPECT_EQ(screen.lines(),
            (Lines{"before", "a note that is longe", "r than a row", "e", "c", ""}));
  block.end();
  screen.write(block.draw("", {"next"}, 20));
  EXPECT_EQ(screen.lines().back(), "");
  EXPECT_EQ(screen.lines()[4], "c");
  EXPECT_EQ(screen.lines()[5], "next");
  EXPECT_TRUE(screen.cursor_shown());
  EXPECT_TRUE(screen.wraps());
}

TEST(TerminalBlock, FindsItsPlaceWhenTheTerminalHasWrappedIt) {
  TerminalBlock block;
  block.draw("", {"\x1b[32m123456789\x1b[0m", "", "1234"}, 10);
  // Of four columns the lines take 3, 1 and 1 rows.
  EXPECT_EQ(block.draw("", {"abc"}, 4),
            "\x1b[5A\r\x1b[J\x1b[?25l\x1b[?7labc\x1b[K\n\x1b[J\x1b[?7h\x1b[?25h");
}

TEST(TerminalBlock, CountsTheColumnsOfWideAndCombiningCharacters) {
  TerminalBlock block;
  block.draw("", {"損失損失", "e\u0301e\u0301", "🚀🚀🚀"}, 10);
  // Of four columns the lines take 2, 1 and 2 rows.
  EXPECT_TRUE(block.draw("", {"abc"}, 4).starts_with("\x1b[5A\r"));
}

}  // namespace
}  // namespace zerolab::app
