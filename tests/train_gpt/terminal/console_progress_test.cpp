#include "apps/train_gpt/terminal/console_progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "tests/train_gpt/terminal/screen.h"

namespace zerolab::app {
namespace {

RunConfig run_of_100_steps(int64_t log_every) {
  RunConfig config;
  config.run.steps = 100;
  config.run.log_every = log_every;
  return config;
}

StepRecord step_record_of(int64_t step) {
  StepRecord record;
  record.step = step;
  record.result.loss = 2.34567;
  record.result.tokens = 1000;
  record.ms.step = 80;
  record.memory.resize(1);
  record.memory[0].total_peak = 3 << 20;
  return record;
}

std::string shown(const Terminal& terminal, int64_t log_every,
                  const std::function<void(ConsoleProgress&)>& use) {
  char* buffer = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&buffer, &size);
  const RunConfig run = run_of_100_steps(log_every);
  {
    ConsoleProgress progress(out, terminal, run);
    use(progress);
  }
  std::fclose(out);
  std::string text(buffer, size);
  std::free(buffer);
  return text;
}

size_t draws(const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find("\x1b[?25l"); at != std::string::npos;
       at = text.find("\x1b[?25l", at + 1)) {
    ++count;
  }
  return count;
}

TEST(ConsoleProgress, PlainLinesComeEveryLogEveryAndAtTheEnd) {
  const std::string text = shown({}, 40, [](ConsoleProgress& progress) {
    for (int64_t step = 1; step <= 100; ++step) {
      progress.update(step_record_of(step), 0.5 * static_cast<double>(step));
    }
    progress.note("done");
  });
  EXPECT_EQ(text,
            "step  40/100  loss 2.3457  12.5k tok/s  3.0 MiB/rank  0:30 left\n"
            "step  80/100  loss 2.3457  12.5k tok/s  3.0 MiB/rank  0:10 left\n"
            "step 100/100  loss 2.3457  12.5k tok/s  3.0 MiB/rank  0:00 left\n"
            "done\n");
}

TEST(ConsoleProgress, TheViewIsDrawnTenTimesASecondAndAtTheEnd) {
  const std::string text = shown({.live = true, .columns = 30}, 40, [](ConsoleProgress& progress) {
    for (int64_t step = 1; step <= 99; ++step) {
      progress.update(step_record_of(step), 0.03125 * static_cast<double>(step));
    }
  });
  // Of steps 1, 5, 9, ..., 97, and of the last, which waited.
  EXPECT_EQ(draws(text), 26);
  test::Screen screen(30);
  screen.write(text);
  EXPECT_EQ(screen.lines()[0], "step  99/100  loss 2.3457  12");
}

TEST(ConsoleProgress, NotesStayAboveTheView) {
  const std::string text = shown({.live = true, .columns = 78}, 1, [](ConsoleProgress& progress) {
    progress.note("first");
    progress.update(step_record_of(10), 1.0);
    progress.note("second");
    progress.update(step_record_of(11), 1.01);
    progress.finish();
    progress.note("third");
  });
  EXPECT_TRUE(text.starts_with("first\n"));
  EXPECT_TRUE(text.ends_with("third\n"));
  test::Screen screen(78);
  screen.write(text);
  const std::vector<std::string> lines = screen.lines();
  ASSERT_EQ(lines.size(), 9);
  EXPECT_EQ(lines[0], "first");
  EXPECT_EQ(lines[1], "second");
  EXPECT_EQ(lines[2], "run  DDP  1 rank  k = 0  fp32");
  EXPECT_TRUE(lines[3].starts_with("step  11/100  [====="));
  EXPECT_EQ(lines[8], "third");
}

TEST(ConsoleProgress, WithoutAnOutputNothingHappens) {
  const RunConfig run = run_of_100_steps(1);
  ConsoleProgress progress(nullptr, {.live = true}, run);
  progress.update(step_record_of(100), 1.0);
  progress.note("nothing");
  progress.finish();
}

}  // namespace
}  // namespace zerolab::app
