#include "apps/train_gpt/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

namespace zerolab::app {
namespace {

std::string shown(ProgressStyle style, int64_t log_every,
                  const std::function<void(Progress&)>& use) {
  char* buffer = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&buffer, &size);
  {
    Progress progress(out, style, log_every);
    use(progress);
  }
  std::fclose(out);
  std::string text(buffer, size);
  std::free(buffer);
  return text;
}

ProgressSample sample(int64_t step) {
  return {.step = step,
          .steps = 100,
          .loss = 2.34567,
          .tokens_per_s = 12345,
          .bytes_per_rank = 3 << 20,
          .seconds_left = 75};
}

const std::string kStep50 = "step  50/100  loss 2.3457  12.3k tok/s  3.0 MiB/rank  1:15 left";

TEST(Progress, PlainLinesComeEveryLogEveryAndAtTheEnd) {
  const std::string text = shown({}, 30, [](Progress& progress) {
    for (int64_t step = 1; step <= 100; ++step) {
      progress.update(sample(step));
    }
    progress.note("done");
  });
  EXPECT_EQ(text,
            "step  30/100  loss 2.3457  12.3k tok/s  3.0 MiB/rank  1:15 left\n"
            "step  60/100  loss 2.3457  12.3k tok/s  3.0 MiB/rank  1:15 left\n"
            "step  90/100  loss 2.3457  12.3k tok/s  3.0 MiB/rank  1:15 left\n"
            "step 100/100  loss 2.3457  12.3k tok/s  3.0 MiB/rank  1:15 left\n"
            "done\n");
}

TEST(Progress, TheLiveLineIsRewrittenAndEndedOnce) {
  const std::string line = "[=====>     ] " + kStep50;
  const std::string text = shown({.live = true, .columns = 78}, 30, [](Progress& progress) {
    progress.update(sample(50));
    progress.note("eval: loss 2.5");
    progress.finish();
  });
  EXPECT_EQ(text, "\r\x1b[K" + line + "\r\x1b[Keval: loss 2.5\n" + line + "\n");
}

TEST(Progress, ColorsTheBarOnly) {
  const std::string text = shown({.live = true, .color = true, .columns = 78}, 1,
                                 [](Progress& progress) { progress.update(sample(50)); });
  EXPECT_EQ(text, "\r\x1b[K[\x1b[32m=====>     \x1b[0m] " + kStep50 + "\n");
}

TEST(Progress, NeverFillsTheTerminalsLastColumn) {
  for (int columns = 0; columns <= 200; ++columns) {
    const std::string text = shown({.live = true, .columns = columns}, 1,
                                   [](Progress& progress) { progress.update(sample(100)); });
    const size_t visible = text.size() - std::string("\r\x1b[K\n").size();
    EXPECT_LE(visible, static_cast<size_t>(std::max(columns - 1, 1))) << columns;
  }
}

TEST(Progress, AFileIsNotLive) {
  std::FILE* file = std::tmpfile();
  const ProgressStyle style = ProgressStyle::of(file);
  std::fclose(file);
  EXPECT_FALSE(style.live);
  EXPECT_FALSE(style.color);
  EXPECT_EQ(style.columns, 80);
}

TEST(Progress, ATerminalIsLiveAndNoColorIsRespected) {
  const int descriptor = posix_openpt(O_RDWR);
  std::FILE* terminal = descriptor < 0 ? nullptr : fdopen(descriptor, "r+");
  if (terminal == nullptr) {
    GTEST_SKIP() << "this machine has no pseudo-terminal";
  }
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(ProgressStyle::of(terminal).live);
  EXPECT_TRUE(ProgressStyle::of(terminal).color);
  setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(ProgressStyle::of(terminal).live);
  EXPECT_FALSE(ProgressStyle::of(terminal).color);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ProgressStyle::of(terminal).live);
  std::fclose(terminal);
}

TEST(Progress, FormatsForReaders) {
  EXPECT_EQ(format_duration(7.4), "0:07");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(7500), "2:05:00");
  EXPECT_EQ(format_duration(-1), "--:--");
  EXPECT_EQ(format_duration(std::nan("")), "--:--");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(format_count(950), "950");
  EXPECT_EQ(format_count(12345), "12.3k");
  EXPECT_EQ(format_count(4.5e6), "4.5M");
}

}  // namespace
}  // namespace zerolab::app
