#include "apps/train_gpt/config/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/train_gpt/config/config_table.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "framework/core/error.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {
namespace {

std::string override_error(const std::string& assignment) {
  return error_of([&] {
    RunConfig config;
    apply_override(config, assignment);
  });
}

RunConfig overridden(const std::string& assignment) {
  RunConfig config;
  apply_override(config, assignment);
  return config;
}

/// A TOML value that the key accepts and that is not its default.
std::string other_value(const Entry& entry) {
  const nlohmann::json value = entry.value(RunConfig{});
  if (value.is_boolean()) {
    return value.get<bool>() ? "false" : "true";
  }
  if (entry.name() == "zero.schedule") {
    return "[{step = 3, stage = 1}, {step = 5, stage = 2}]";
  }
  if (value.is_array()) {
    return entry.name() == "optimizer.betas" ? "[0.25, 0.125]" : R"(["a\"b.txt", "é.txt"])";
  }
  if (!entry.choices.empty()) {
    return "\"" + std::string(entry.choices.back()) + "\"";
  }
  if (entry.name() == "loss_scale.initial") {
    return "128.0";
  }
  if (value.is_string() && value != "auto") {
    return R"("a \\ \"word\"\n")";
  }
  if (value.is_number_float()) {
    return entry.range.max <= 1 ? "0.375" : "0.001953125";
  }
  return entry.range.max <= 2 ? "2" : "17";
}

TEST(ConfigTable, HasOneRowAKeyWithHelpAndALegalDefault) {
  std::set<std::string> names;
  for (const Entry& entry : config_table()) {
    EXPECT_TRUE(names.insert(entry.name()).second) << entry.name();
    EXPECT_FALSE(entry.help.empty()) << entry.name();
  }
  EXPECT_EQ(names.size(), 79u);
  const RunConfig defaults;
  EXPECT_EQ(to_json(parse_config(dump_toml(defaults), "dump")), to_json(defaults));
}

TEST(ConfigTable, EveryKeyRoundTripsThroughTheDump) {
  for (const Entry& entry : config_table()) {
    SCOPED_TRACE(entry.name());
    const std::string text = "[" + std::string(entry.section) + "]\n" + std::string(entry.key) +
                             " = " + other_value(entry);
    const RunConfig config = parse_config(text, "demo.toml");
    if (entry.choices.size() != 1) {
      EXPECT_NE(to_json(config), to_json(RunConfig{}));
    }
    EXPECT_EQ(to_json(parse_config(dump_toml(config), "dump")), to_json(config));
    EXPECT_EQ(config.set_at.at(entry.name()), "demo.toml:2");
    EXPECT_EQ(to_json(overridden(entry.name() + "=" + other_value(entry))), to_json(config));
  }
}

TEST(ConfigTable, EveryKeyAndItsDefaultStandInTheHelp) {
  const std::string help = config_help();
  for (const Entry& entry : config_table()) {
    EXPECT_NE(help.find("\n  " + std::string(entry.key) + " = "), std::string::npos);
    EXPECT_NE(help.find(std::string(entry.help)), std::string::npos);
  }
  EXPECT_NE(help.find("\n[zero]\n"
                      "  stage = 0\n"
                      "      What is partitioned: 0 nothing (DDP), 1 optimizer state, 2 gradients "
                      "too.\n"
                      "      Expects an integer >= 0 and <= 2.\n"
                      "  layout = \"bucketed\"\n"
                      "      A rank owns a slice of every bucket, or (DeepSpeed's) one contiguous "
                      "range.\n"
                      "      Expects \"bucketed\" or \"contiguous\".\n"),
            std::string::npos)
      << help;
}

TEST(ConfigTable, EveryKeyRefusesAWrongType) {
  for (const Entry& entry : config_table()) {
    const std::string section(entry.section), key(entry.key);
    EXPECT_EQ(
        parse_error("[" + section + "]\n" + key + " = 1979-05-27"),
        "[config] demo.toml:2: " + entry.name() + "; got 1979-05-27, expected " + entry.expected());
  }
}

TEST(Config, NamesTheNearestKey) {
  EXPECT_EQ(parse_error("[zero]\n\nstge = 2\n"),
            "[config] demo.toml:3: unknown key; got zero.stge, expected a key of train-gpt --help; "
            "the nearest is zero.stage");
  EXPECT_EQ(parse_error("stage = 2\n"),
            "[config] demo.toml:1: unknown key; got stage, expected a key of train-gpt --help; the "
            "nearest is zero.stage");
  EXPECT_EQ(parse_error("[train]\nlr = 1\n"),
            "[config] demo.toml:2: unknown key; got train.lr, expected a key of train-gpt --help; "
            "the nearest is optimizer.lr");
  EXPECT_EQ(parse_error("[run]\n[modle]\nn_layer = 1\n"),
            "[config] demo.toml:2: unknown section; got [modle], expected a section of train-gpt "
            "--help; the nearest is [model]");
  EXPECT_EQ(parse_error("[zero.stage]\n"),
            "[config] demo.toml:1: zero.stage; got a table, expected an integer >= 0 and <= 2");
  EXPECT_EQ(parse_error("zero = 2\n"),
            "[config] demo.toml:1: zero; got 2, expected a section [zero]");
}

TEST(Config, ChecksTypeAndRange) {
  const auto at = [](const std::string& rest) { return "[config] demo.toml:2: " + rest; };
  EXPECT_EQ(parse_error("[zero]\nstage = 3\n"),
            at("zero.stage; got 3, expected an integer >= 0 and <= 2"));
  EXPECT_EQ(parse_error("[zero]\nstage = \"two\"\n"),
            at("zero.stage; got \"two\", expected an integer >= 0 and <= 2"));
  EXPECT_EQ(parse_error("[zero]\nstage = 1.5\n"),
            at("zero.stage; got 1.5, expected an integer >= 0 and <= 2"));
  EXPECT_EQ(parse_error("[zero]\noverlap_comm = 1\n"),
            at("zero.overlap_comm; got 1, expected true or false"));
  EXPECT_EQ(parse_error("[model]\ndropout = 1.0\n"),
            at("model.dropout; got 1, expected a number >= 0 and < 1"));
  EXPECT_EQ(parse_error("[optimizer]\nlr = nan\n"),
            at("optimizer.lr; got nan, expected a number >= 0"));
  EXPECT_EQ(parse_error("[optimizer]\nlr = inf\n"),
            at("optimizer.lr; got inf, expected a number >= 0"));
  EXPECT_EQ(parse_error("[optimizer]\nbetas = [0.9]\n"),
            at("optimizer.betas; got [0.9], expected an array of two numbers >= 0 and < 1"));
  EXPECT_EQ(parse_error("[optimizer]\nname = \"adam\"\n"),
            at("optimizer.name; got \"adam\", expected \"adamw\" or \"sgd\" or \"lion\""));
  EXPECT_EQ(parse_error("[data]\npath = [\"a\", 1]\n"),
            at("data.path; got [\"a\", 1], expected text or an array of texts"));
  EXPECT_EQ(parse_error("[zero]\nreduce_bucket_size = \"big\"\n"),
            at("zero.reduce_bucket_size; got \"big\", expected an integer >= 0, or \"auto\""));
  EXPECT_EQ(parse_error("[run]\nseed = 1e19\n"),
            at("run.seed; got 1e+19, expected an integer >= 0"));
  EXPECT_EQ(
      parse_error("[launch]\nmemory_limit = \"4 GiBi\"\n"),
      at("launch.memory_limit; got \"4 GiBi\", expected bytes or text such as \"4GiB\", >= 0, "
         "or \"auto\""));
}

TEST(Config, ReportsSyntaxWithItsLine) {
  const std::string message = parse_error("[zero]\nstage = = 2\n");
  EXPECT_EQ(message.rfind("[config] demo.toml:2: not TOML; ", 0), 0u) << message;
  EXPECT_EQ(
      parse_error("[zero]\nstage = 1\nstage = 2\n").rfind("[config] demo.toml:3: not TOML; ", 0),
      0u);
}

TEST(Config, ReportsAFileThatCannotBeRead) {
  EXPECT_EQ(error_of([] { load_config("/nowhere/x.toml"); }),
            "[config] /nowhere/x.toml: cannot be read; No such file or directory");
  EXPECT_EQ(error_of([] { load_config("/tmp"); }), "[config] /tmp: cannot be read; it is a folder");
}

TEST(Config, AcceptsIntegralFloatsAutoAndByteUnits) {
  EXPECT_EQ(overridden("zero.reduce_bucket_size=5e8").zero.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(overridden("zero.reduce_bucket_size=auto").zero.reduce_bucket_size, 0);
  EXPECT_EQ(overridden("zero.reduce_bucket_size=\"auto\"").zero.reduce_bucket_size, 0);
  EXPECT_EQ(overridden("optimizer.lr=1").optimizer.lr, 1.0);
  EXPECT_EQ(overridden("launch.memory_limit=4096").launch.memory_limit, 4096);
  EXPECT_EQ(overridden("launch.memory_limit=4GiB").launch.memory_limit, int64_t{4} << 30);
  EXPECT_EQ(overridden("launch.memory_limit=1.5 kB").launch.memory_limit, 1500);
  EXPECT_EQ(overridden("launch.memory_limit=0.5MiB").launch.memory_limit, 512 * 1024);
  const nlohmann::json defaults = to_json(RunConfig{});
  EXPECT_EQ(defaults["zero.reduce_bucket_size"], "auto");
  EXPECT_EQ(defaults["zero.stage"], 0);
}

TEST(Config, OverridesTakeTomlOrText) {
  EXPECT_EQ(overridden("zero.stage=2").zero.stage, 2);
  EXPECT_EQ(overridden("zero.stage=2").set_at.at("zero.stage"), "--set zero.stage");
  EXPECT_EQ(overridden("run.name=exp-1").run.name, "exp-1");
  EXPECT_EQ(overridden("run.name=\"exp 1\"").run.name, "exp 1");
  EXPECT_EQ(overridden("run.name=2024-05-01").run.name, "2024-05-01");
  EXPECT_EQ(overridden("run.name=a=b").run.name, "a=b");
  EXPECT_EQ(overridden("run.name=").run.name, "");
  EXPECT_EQ(overridden("run.name=1\nother = 2").run.name, "1\nother = 2");
  EXPECT_EQ(overridden("data.path=../a b.txt").data.path, std::vector<std::string>{"../a b.txt"});
  EXPECT_EQ(overridden("data.path=[\"a\", \"b\"]").data.path, (std::vector<std::string>{"a", "b"}));

  EXPECT_EQ(override_error("zero.stage=3"),
            "[config] --set zero.stage: zero.stage; got 3, expected an integer >= 0 and <= 2");
  EXPECT_EQ(
      override_error("zero.stage=two"),
      "[config] --set zero.stage: zero.stage; got \"two\", expected an integer >= 0 and <= 2");
  EXPECT_EQ(override_error("zero.stge=2"),
            "[config] --set zero.stge: unknown key; got zero.stge, expected a key of train-gpt "
            "--help; the nearest is zero.stage");
  EXPECT_EQ(override_error("stage=2"),
            "[config] --set stage: unknown key; got stage, expected a key of train-gpt --help; the "
            "nearest is zero.stage");
  EXPECT_EQ(override_error("zreo.stage=2"),
            "[config] --set zreo.stage: unknown section; got [zreo], expected a section of "
            "train-gpt --help; the nearest is [zero]");
  EXPECT_EQ(override_error("zero.stage"),
            "[config] --set zero.stage: no value; got no \"=\", expected section.key=value");
}

TEST(Config, DumpsTextThatIsNotUtf8) {
  EXPECT_EQ(overridden("run.name=a\xff").run.name, "a\xff");
  EXPECT_NE(dump_toml(overridden("run.name=a\xff")).find("name = \"a\xef\xbf\xbd\""),
            std::string::npos);
}

TEST(Config, ReadyFilesAreInOrder) {
  const std::filesystem::path folder = std::filesystem::path(SOURCE_FOLDER) / "configs";
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".toml") {
      EXPECT_NO_THROW(load_config(file.path(), {"data.path=/dev/null"})) << file.path();
      ++files;
    }
  }
  EXPECT_GE(files, 2u);
}

TEST(Config, TheDemosFilesAreDebians) {
  if (!std::filesystem::exists("/usr/share/games/fortunes")) {
    GTEST_SKIP() << "the package fortunes is not installed";
  }
  const std::filesystem::path folder = std::filesystem::path(SOURCE_FOLDER) / "configs";
  EXPECT_EQ(load_config(folder / "demo.toml").train.train_batch_size, 8);
}

}  // namespace
}  // namespace zerolab::app
