#include "apps/train_gpt/terminal/console_log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

namespace zerolab::app {
namespace {

/// What a run says where lines of progress come at its last step, 1000, only.
std::string said(const std::function<void(ConsoleLog&)>& use) {
  RunConfig config;
  config.run.steps = 1000;
  config.run.log_every = 1000;
  char* buffer = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&buffer, &size);
  {
    ConsoleLog log(out, {}, config);
    use(log);
  }
  std::fclose(out);
  std::string text(buffer, size);
  std::free(buffer);
  return text;
}

size_t lines_with(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(ConsoleLog, ShowsTheFirstSkippedStepsAndThenEveryHundredth) {
  const std::string text = said([](ConsoleLog& log) {
    StepRecord record;
    record.result.skipped = zero::NonFinite{
        .parameter = "wte", .index = 7, .owner_rank = 1, .kind = "inf", .source_ranks = {0, 2}};
    record.result.loss_scale = 512;
    for (record.step = 1; record.step <= 250; ++record.step) {
      log.on_step(record);
    }
  });
  EXPECT_EQ(lines_with(text, " skipped ("), 7);
  EXPECT_TRUE(text.starts_with(
      "step 1 skipped (1 so far): the gradient of wte is inf at element 7 (owner: rank 1, from "
      "rank 0, 2); loss scale 512\n"))
      << text;
  EXPECT_EQ(lines_with(text, "step 6 skipped"), 0);
  EXPECT_EQ(lines_with(text, "step 100 skipped (100 so far)"), 1);
  EXPECT_EQ(lines_with(text, "step 200 skipped (200 so far)"), 1);
}

TEST(ConsoleLog, NotesBuffersBeyondThePlanOnce) {
  const std::string text = said([](ConsoleLog& log) {
    StepRecord record;
    record.step = 3;
    log.on_step(record);
    record.excess_buffers = 1;
    record.excess_parameter = "h.0.ln";
    log.on_step(record);
    log.on_step(record);
  });
  EXPECT_EQ(text,
            "step 3: 1 gradient buckets beyond the planned two were held, the last for h.0.ln: its "
            "bucket waits for a gradient that comes later\n");
}

TEST(ConsoleLog, ASampleIsOneLineWhateverItHolds) {
  EXPECT_EQ(said([](ConsoleLog& log) {
              log.on_sample({.step = 5, .text = "a\nb\x1b\xFF", .error = ""});
              log.on_sample({.step = 6, .text = "", .error = "no text"});
            }),
            "step 5: sample \"a\\nb\\u001b\uFFFD\"\nstep 6: no sample: no text\n");
}

TEST(ConsoleLog, SaysWhenARunEndsBeforeItsTime) {
  RunSummary summary;
  summary.last_step = 12;
  EXPECT_EQ(said([&](ConsoleLog& log) { log.finish(summary); }), "");
  summary.stopped = true;
  EXPECT_EQ(said([&](ConsoleLog& log) { log.finish(summary); }),
            "stopped on request after step 12 of 1000; the log is complete\n");
}

}  // namespace
}  // namespace zerolab::app
