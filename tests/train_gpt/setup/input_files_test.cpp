#include "apps/train_gpt/setup/input_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/train_gpt/config/config.h"
#include "framework/core/error.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {
namespace {

namespace fs = std::filesystem;

class ResolveInputs : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("zerolab-inputs-" + std::to_string(getpid()));
    fs::create_directories(folder_ / "configs");
    fs::create_directories(folder_ / "work" / "sub.txt");
    old_working_ = fs::current_path();
    fs::current_path(folder_ / "work");
    folder_ = fs::current_path().parent_path();
  }
  void TearDown() override {
    fs::current_path(old_working_);
    fs::remove_all(folder_);
  }
  void touch(const std::string& file) { std::ofstream(folder_ / file) << "x"; }

  RunConfig load(const std::string& data_section) {
    std::ofstream(folder_ / "configs/a.toml") << "[data]\n" << data_section << "\n";
    return load_config("../configs/a.toml");
  }
  std::string at(const std::string& file) { return (folder_ / file).string(); }

  fs::path folder_, old_working_;
};

TEST_F(ResolveInputs, TheConfigsFolderComesBeforeTheWorkingDirectory) {
  touch("work/both.txt");
  touch("configs/both.txt");
  touch("work/only.txt");
  touch("other.txt");
  const RunConfig config = load("path = [\"both.txt\", \"only.txt\", \"../other.txt\"]");
  EXPECT_EQ(config.data.path, (std::vector<std::string>{at("configs/both.txt"), at("work/only.txt"),
                                                        at("other.txt")}));
}

TEST_F(ResolveInputs, GlobsGiveSortedFilesAndNoFolders) {
  touch("work/b.txt");
  touch("work/a.txt");
  touch("work/c.dat");
  EXPECT_EQ(load("path = \"*.txt\"").data.path,
            (std::vector<std::string>{at("work/a.txt"), at("work/b.txt")}));
}

TEST_F(ResolveInputs, AMissingFileNamesBothPlaces) {
  try {
    load("path = \"no.txt\"");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(
        error.what(),
        "[config] ../configs/a.toml:2: data.path names no file; got \"no.txt\", expected a file "
        "in \"" +
            at("configs") + "\" or \"" + at("work") + "\"");
  }
}

TEST_F(ResolveInputs, WeightsAreFoundLikeData) {
  touch("work/a.txt");
  touch("configs/w.safetensors");
  const RunConfig config = load("path = \"a.txt\"\n[model]\ninit_from = \"w.safetensors\"");
  EXPECT_EQ(config.model.init_from, at("configs/w.safetensors"));
}

TEST_F(ResolveInputs, OverridesFollowTheFileInOrder) {
  touch("work/a.txt");
  std::ofstream(folder_ / "configs/a.toml") << "[zero]\nstage = 1\n[data]\npath = \"a.txt\"\n";
  const RunConfig config =
      load_config("../configs/a.toml", {"zero.stage=0", "zero.stage=2", "launch.ranks=2"});
  EXPECT_EQ(config.zero.stage, 2);
  EXPECT_EQ(config.train.train_batch_size, 16);
  EXPECT_EQ(to_json(parse_config(dump_toml(config), "dump")), to_json(config));
}

}  // namespace
}  // namespace zerolab::app
