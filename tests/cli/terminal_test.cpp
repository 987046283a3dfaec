#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/cli/program.h"
#include "tests/train_gpt/terminal/screen.h"

namespace zerolab::test {
namespace {

/// A pseudo-terminal, which keeps what is written to it.
class Pty {
 public:
  explicit Pty(int columns) : descriptor_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    if (descriptor_ >= 0 && grantpt(descriptor_) == 0 && unlockpt(descriptor_) == 0) {
      const winsize size = {
          .ws_row = 24, .ws_col = static_cast<uint16_t>(columns), .ws_xpixel = 0, .ws_ypixel = 0};
      ioctl(descriptor_, TIOCSWINSZ, &size);
      path_ = ptsname(descriptor_);
      other_end_ = open(path_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);  // so that reads never fail
    }
  }
  ~Pty() {
    close(other_end_);
    close(descriptor_);
  }
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;

  bool is_open() const { return other_end_ >= 0; }
  const std::string& path() const { return path_; }
  const std::string& text() const { return text_; }

  /// Reads what is there, or comes within some milliseconds; false: nothing.
  bool read_some() {
    pollfd poll_for = {.fd = descriptor_, .events = POLLIN, .revents = 0};
    char buffer[4096];
    const ssize_t size = poll(&poll_for, 1, 20) > 0 ? read(descriptor_, buffer, sizeof(buffer)) : 0;
    text_.append(buffer, std::max<ssize_t>(size, 0));
    return size > 0;
  }

 private:
  int descriptor_ = -1;
  int other_end_ = -1;
  std::string path_;
  std::string text_;
};

struct Shown {
  Ended ended;
  std::string text;
  Screen screen;

  /// Lines of the final screen that begin with `text`.
  std::vector<std::string> lines(const std::string& text) const {
    std::vector<std::string> found = screen.lines();
    std::erase_if(found, [&](const std::string& line) { return !line.starts_with(text); });
    return found;
  }
  bool is_clean() const {
    return screen.cursor_shown() && screen.wraps() && !screen.colored() && screen.column() == 0;
  }
};

class LiveTerminal : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
  }

  /// Runs `train` on a terminal, and interrupts it when it has shown a step, if asked to.
  Shown train(int columns, const std::vector<std::string>& settings, bool interrupt = false) const {
    Pty terminal(columns);
    EXPECT_TRUE(terminal.is_open()) << "this machine has no pseudo-terminal";
    const auto program = run_.start("train", settings, {}, terminal.path());
    while (terminal.read_some() || program->is_running()) {
      if (interrupt && terminal.text().find(" left") != std::string::npos) {
        program->send(SIGINT);
        interrupt = false;
      }
    }
    Shown shown = {.ended = program->wait(), .text = terminal.text(), .screen = Screen(columns)};
    shown.screen.write(shown.text);
    return shown;
  }

  std::string last_loss() const {
    return fmt::format("loss {:.4f}", of_event(run_.log(), "step").back().at("loss").get<double>());
  }

  const SmallRun run_;
};

TEST_F(LiveTerminal, RedrawsInPlaceAndEndsWithTheLastStep) {
  const Shown shown = train(80, {});
  ASSERT_EQ(shown.ended.status, 0) << shown.ended.err;
  EXPECT_NE(shown.text.find("\x1b[7A\r"), std::string::npos);  // up to the title again
  EXPECT_EQ(shown.lines("small  DDP  2 ranks").size(), 1);
  EXPECT_EQ(shown.lines("step 6/6  [███").size(), 1);
  EXPECT_EQ(shown.lines(last_loss() + "  █").size(), 1);
  EXPECT_EQ(shown.lines("rank 0  [█").size(), 1);
  EXPECT_EQ(shown.lines("rank 1  [█").size(), 1);
  EXPECT_EQ(shown.lines("step 3: validation loss ").size(), 1);
  EXPECT_EQ(shown.lines("log: runs/small/metrics.jsonl").size(), 1);
  EXPECT_GT(shown.screen.color_codes(), 0);
  EXPECT_TRUE(shown.is_clean());
}

TEST_F(LiveTerminal, NoColorMeansNone) {
  setenv("NO_COLOR", "1", 1);
  setenv("LC_ALL", "C", 1);
  const Shown shown = train(80, {});
  EXPECT_EQ(shown.screen.color_codes(), 0);
  EXPECT_EQ(shown.lines("rank 1  [PPP").size(), 1);
  EXPECT_TRUE(std::all_of(shown.text.begin(), shown.text.end(), [](char c) { return c > 0; }));
}

TEST_F(LiveTerminal, ThirtyColumnsHaveOneLine) {
  const Shown shown = train(30, {"run.eval_every=0"});
  ASSERT_EQ(shown.ended.status, 0) << shown.ended.err;
  EXPECT_EQ(shown.lines(("step 6/6  " + last_loss() + "  ").substr(0, 29)).size(), 1);
  EXPECT_TRUE(shown.lines("rank 0").empty());
  EXPECT_TRUE(shown.is_clean());
}

TEST_F(LiveTerminal, PlainAndDumbAreLines) {
  EXPECT_EQ(train(80, {"log.console=plain"}).text.find('\x1b'), std::string::npos);
  setenv("TERM", "dumb", 1);
  const Shown shown = train(80, {});
  EXPECT_EQ(shown.text.find('\x1b'), std::string::npos);
  EXPECT_EQ(shown.lines("step ").size(), 8);  // six steps, two evaluations
}

TEST_F(LiveTerminal, IsCleanAfterAnInterrupt) {
  const Shown shown = train(80, {"run.steps=100000000", "run.eval_every=0"}, true);
  EXPECT_EQ(shown.ended.status, 0) << shown.ended.err;
  EXPECT_EQ(shown.lines(last_loss()).size(), 1);
  EXPECT_EQ(shown.lines("stopped on request after step ").size(), 1);
  EXPECT_TRUE(shown.is_clean());
}

TEST_F(LiveTerminal, IsCleanAfterAnError) {
  const Shown shown = train(80, {"optimizer.lr=1e30", "optimizer.gradient_clipping=0",
                                 "run.steps=50", "run.eval_every=0", "train.max_skipped_steps=3"});
  EXPECT_EQ(shown.ended.status, 1);
  EXPECT_NE(shown.ended.err.find("not finite"), std::string::npos);
  EXPECT_EQ(shown.lines("small  DDP  2 ranks").size(), 1);
  EXPECT_FALSE(shown.lines("step 2 skipped (1 so far)").empty());
  EXPECT_TRUE(shown.is_clean());
}

}  // namespace
}  // namespace zerolab::test
