#include "apps/train_gpt/terminal/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <cstdlib>

namespace zerolab::app {
namespace {

TEST(Terminal, AFileIsNotLive) {
  std::FILE* file = std::tmpfile();
  const Terminal terminal = Terminal::of(file);
  std::fclose(file);
  EXPECT_FALSE(terminal.live);
  EXPECT_FALSE(terminal.color);
  EXPECT_FALSE(terminal.unicode);
  EXPECT_EQ(terminal.columns, 80);
}

TEST(Terminal, FollowsTheEnvironmentAndTheSize) {
  const int descriptor = posix_openpt(O_RDWR);
  std::FILE* file = descriptor < 0 ? nullptr : fdopen(descriptor, "r+");
  if (file == nullptr) {
    GTEST_SKIP() << "this machine has no pseudo-terminal";
  }
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  Terminal terminal = Terminal::of(file);
  EXPECT_TRUE(terminal.live);
  EXPECT_TRUE(terminal.color);
  EXPECT_TRUE(terminal.unicode);
  setenv("NO_COLOR", "1", 1);
  setenv("LC_ALL", "C", 1);
  terminal = Terminal::of(file);
  EXPECT_TRUE(terminal.live);
  EXPECT_FALSE(terminal.color);
  EXPECT_FALSE(terminal.unicode);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(Terminal::of(file).live);
  const winsize size = {.ws_row = 7, .ws_col = 33, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(descriptor, TIOCSWINSZ, &size);
  terminal.measure(file);
  EXPECT_EQ(terminal.columns, 33);
  EXPECT_EQ(terminal.rows, 7);
  std::fclose(file);
}

}  // namespace
}  // namespace zerolab::app
