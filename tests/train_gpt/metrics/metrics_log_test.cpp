#include "apps/train_gpt/metrics/metrics_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace zerolab::app {
namespace {

namespace fs = std::filesystem;

class MetricsLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("zerolab-metrics-" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string text(const fs::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  fs::path folder_;
};

/// A resumed run keeps what its log says of the steps before, and nothing else.
TEST_F(MetricsLogTest, GoesOnAfterAStep) {
  const std::string kept =
      "{\"event\":\"config\"}\n{\"event\":\"step\",\"step\":1}\n{\"event\":\"eval\",\"step\":2}\n";
  std::ofstream(folder_ / "metrics.jsonl")
      << kept << "{\"event\":\"step\",\"step\":3}\n{\"event\":\"summary\"}\n[1]\nnonsense\n"
      << "{\"event\":5,\"step\":\"x\"}\n{\"event\":\"step\",\"st";
  MetricsLog log(folder_, 2);
  EXPECT_EQ(text(log.path()), kept);
  log.write({{"event", "resume"}});
  EXPECT_EQ(text(log.path()), kept + "{\"event\":\"resume\"}\n");
}

TEST_F(MetricsLogTest, WritesOneRecordALineAtOnce) {
  MetricsLog log(folder_ / "runs" / "demo");
  EXPECT_EQ(log.path(), (folder_ / "runs/demo/metrics.jsonl").string());
  log.write({{"event", "config"}, {"text", "two\nlines"}});
  EXPECT_EQ(text(log.path()), "{\"event\":\"config\",\"text\":\"two\\nlines\"}\n");
  log.write({{"event", "step"}, {"loss", std::nan("")}, {"step", 1}});
  EXPECT_EQ(text(log.path()),
            "{\"event\":\"config\",\"text\":\"two\\nlines\"}\n"
            "{\"event\":\"step\",\"loss\":null,\"step\":1}\n");
}

TEST_F(MetricsLogTest, AnOlderLogLastsUntilTheFirstRecord) {
  { MetricsLog(folder_).write({{"event", "an older and longer record"}}); }
  const std::string older = text(folder_ / "metrics.jsonl");
  MetricsLog log(folder_);
  EXPECT_EQ(text(log.path()), older);
  log.write({{"a", 1}});
  EXPECT_EQ(text(log.path()), "{\"a\":1}\n");
}

TEST_F(MetricsLogTest, AFullDiskIsAnErrorThatNamesTheFile) {
  fs::create_symlink("/dev/full", folder_ / "metrics.jsonl");
  MetricsLog log(folder_);
  try {
    log.write({{"a", 1}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "[metrics] " + log.path() +
                                ": cannot be written; No space left on device; change run.out_dir, "
                                "or set log.metrics = false");
  }
}

TEST_F(MetricsLogTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ / "file") << "x";
  try {
    MetricsLog log(folder_ / "file" / "run");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "[metrics] " + (folder_ / "file/run/metrics.jsonl").string() +
                                ": its folder cannot be made; Not a directory; change run.out_dir, "
                                "or set log.metrics = false");
  }
}

TEST_F(MetricsLogTest, AFolderInTheFilesPlaceIsAnError) {
  fs::create_directories(folder_ / "metrics.jsonl");
  EXPECT_THROW(MetricsLog{folder_}, Error);
}

}  // namespace
}  // namespace zerolab::app
