#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "framework/core/error.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {
namespace {

constexpr const char* kTwoSwitches = R"([zero]
stage = 0

[[zero.schedule]]
step = 10
stage = 1

[[zero.schedule]]
stage = 2
step = 2e1
)";

TEST(Schedule, IsReadFromTablesAndKeptInDumps) {
  const RunConfig config = parse_config(kTwoSwitches, "demo.toml");
  ASSERT_EQ(config.zero.schedule.size(), 2);
  EXPECT_EQ(config.zero.schedule[0].step, 10);
  EXPECT_EQ(config.zero.schedule[0].stage, 1);
  EXPECT_EQ(config.zero.schedule[1].step, 20);
  EXPECT_EQ(config.zero.schedule[1].stage, 2);
  EXPECT_NE(
      dump_toml(config).find("\nschedule = [{stage = 1, step = 10}, {stage = 2, step = 20}]\n"),
      std::string::npos);
  const nlohmann::json logged = to_json(config).at("zero.schedule");
  EXPECT_EQ(logged,
            nlohmann::json::parse(R"([{"step": 10, "stage": 1}, {"step": 20, "stage": 2}])"));
  EXPECT_EQ(to_json(parse_config(dump_toml(config), "dump")), to_json(config));

  RunConfig again;
  apply_override(again, "zero.schedule=" + logged.dump());  // as it stands in the log
  EXPECT_EQ(to_json(again).at("zero.schedule"), logged);
}

TEST(Schedule, FaultsAreToldWithTheirOwnLine) {
  EXPECT_EQ(parse_error("[[zero.schedule]]\nstep = 1\nstage = 3\n"),
            "[config] demo.toml:3: zero.schedule.stage; got 3, expected an integer >= 0 and <= 2");
  EXPECT_EQ(parse_error("[[zero.schedule]]\nstep = 0\nstage = 1\n"),
            "[config] demo.toml:2: zero.schedule.step; got 0, expected an integer >= 1");
  EXPECT_EQ(parse_error("[[zero.schedule]]\nstep = 1.5\nstage = 1\n"),
            "[config] demo.toml:2: zero.schedule.step; got 1.5, expected an integer >= 1");
  EXPECT_EQ(parse_error("\n[[zero.schedule]]\nstep = 1\n"),
            "[config] demo.toml:2: zero.schedule.stage is missing; expected an integer >= 0 and "
            "<= 2");
  EXPECT_EQ(parse_error("[[zero.schedule]]\nstep = 1\nstage = 1\nstge = 1\n"),
            "[config] demo.toml:4: unknown key; got zero.schedule.stge, expected step or stage");
  EXPECT_EQ(parse_error("[[zero.schedule]]\nstep = 5\nstage = 1\n[[zero.schedule]]\nstep = 5\n"
                        "stage = 2\n"),
            "[config] demo.toml:4: zero.schedule.step; got 5 after 5, expected steps that rise");
  EXPECT_EQ(parse_error("[zero]\nschedule = [5]\n"),
            "[config] demo.toml:2: zero.schedule; got 5, expected a table {step, stage}");
  EXPECT_EQ(parse_error("[zero.schedule]\nstep = 1\n"),
            "[config] demo.toml:1: zero.schedule; got a table, expected an array of tables {step, "
            "stage}");
}

TEST(Schedule, MustEndWithinTheRun) {
  RunConfig config = parse_config(std::string(kTwoSwitches) + "[run]\nsteps = 19\n", "demo.toml");
  EXPECT_EQ(error_of([&] { resolve(config); }),
            "[config] demo.toml:8: zero.schedule.step; got 20, expected at most run.steps 19");
}

}  // namespace
}  // namespace zerolab::app
