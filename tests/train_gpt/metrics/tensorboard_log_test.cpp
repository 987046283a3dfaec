#include "apps/train_gpt/metrics/tensorboard_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "framework/core/error.h"
#include "tests/data/test_files.h"
#include "tests/train_gpt/metrics/event_reader.h"

namespace zerolab::app {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(EventReader, HasTheChecksumOfTheStandard) {
  EXPECT_EQ(test::crc32c("123456789"), 0xe3069283);  // RFC 3720's check value
}

TEST(EventLog, ReadsBackAsItWasWritten) {
  const data::TempDir folder;
  EventLog log(folder.path("run"));
  EXPECT_EQ(log.path(), folder.path("run/events.out.tfevents.zerolab"));
  const double before =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  log.write(1, {{"loss/train", 2.5}, {"lr", 1e-3}});
  log.write(int64_t{1} << 40, {{"grad_norm", std::nan("")}, {std::string(300, 'x'), -7.0}});
  const std::vector<test::ReadEvent> events = test::EventReader(text_of(log.path())).all();
  ASSERT_EQ(events.size(), 3);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[0].step, 0);
  EXPECT_GE(events[1].wall_time, before);
  EXPECT_LT(events[1].wall_time, before + 60);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[1].scalars, (std::map<std::string, float>{{"loss/train", 2.5F}, {"lr", 1e-3F}}));
  EXPECT_EQ(events[2].step, int64_t{1} << 40);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("grad_norm")));
  EXPECT_EQ(events[2].scalars.at(std::string(300, 'x')), -7.0F);
}

TEST(EventLog, IsWholeAfterEveryWriteAndReplacesAnOlderOne) {
  const data::TempDir folder;
  for (int run = 0; run < 2; ++run) {
    EventLog log(folder.path("run"));
    for (int step = 1; step <= 3 - run; ++step) {
      log.write(step, {{"lr", step}});
      EXPECT_EQ(test::EventReader(text_of(log.path())).all().size(), 1U + step);
    }
  }
}

TEST(EventLog, AFullDiskIsAnErrorThatNamesTheFile) {
  const data::TempDir folder;
  std::filesystem::create_symlink("/dev/full", folder.path("events.out.tfevents.zerolab"));
  EventLog log(folder.path(""));
  EXPECT_EQ(data::message_of<Error>([&] { log.write(1, {}); }),
            "[tensorboard] " + log.path() +
                ": cannot be written; No space left on device; change run.out_dir, or set "
                "log.tensorboard = false");
}

}  // namespace
}  // namespace zerolab::app
