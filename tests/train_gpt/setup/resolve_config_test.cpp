#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "framework/core/error.h"
#include "optim/optimizer.h"
#include "tests/train_gpt/config/configs.h"

namespace zerolab::app {
namespace {

struct Batch {
  int64_t ranks, train, micro, accumulation;
};

std::vector<std::string> overrides_of(const Batch& batch) {
  return {"launch.ranks=" + std::to_string(batch.ranks),
          "train.train_batch_size=" + std::to_string(batch.train),
          "train.micro_batch_size=" + std::to_string(batch.micro),
          "train.gradient_accumulation_steps=" + std::to_string(batch.accumulation)};
}

TEST(ResolveBatch, AnyTwoGiveTheThird) {
  const std::pair<Batch, Batch> cases[] = {
      {{4, 48, 4, 0}, {4, 48, 4, 3}},
      {{4, 48, 0, 3}, {4, 48, 4, 3}},
      {{4, 0, 4, 3}, {4, 48, 4, 3}},
      {{4, 48, 4, 3}, {4, 48, 4, 3}},
      {{4, 48, 0, 0}, {4, 48, 12, 1}},
      {{4, 0, 5, 0}, {4, 20, 5, 1}},
      {{4, 0, 0, 3}, {4, 96, 8, 3}},
      {{4, 0, 0, 0}, {4, 32, 8, 1}},
      {{1, 1, 0, 0}, {1, 1, 1, 1}},
      {{2, 12, 0, 0}, {2, 12, 6, 1}},
      {{7, 21, 1, 0}, {7, 21, 1, 3}},
      {{256, 0, 1000000, 1000000}, {256, 256000000000000, 1000000, 1000000}},
  };
  for (const auto& [given, expected] : cases) {
    RunConfig config = resolved(overrides_of(given));
    SCOPED_TRACE(dump_toml(config));
    EXPECT_EQ(config.train.train_batch_size, expected.train);
    EXPECT_EQ(config.train.micro_batch_size, expected.micro);
    EXPECT_EQ(config.train.gradient_accumulation_steps, expected.accumulation);
    const nlohmann::json once = to_json(config);
    resolve(config);
    EXPECT_EQ(to_json(config), once);
  }
}

TEST(ResolveBatch, RefusesWhatIsNotExactWithTheNumbers) {
  const std::string at = "[config] --set train.train_batch_size: train.train_batch_size ";
  EXPECT_EQ(
      error_with(overrides_of({4, 50, 4, 0})),
      at + "does not divide; got 50, expected a multiple of micro_batch_size 4 x ranks 4 = 16; "
           "try 48");
  EXPECT_EQ(
      error_with(overrides_of({4, 10, 4, 0})),
      at + "does not divide; got 10, expected a multiple of micro_batch_size 4 x ranks 4 = 16; "
           "try 16");
  EXPECT_EQ(error_with(overrides_of({4, 50, 0, 3})),
            at + "does not divide; got 50, expected a multiple of gradient_accumulation_steps 3 x "
                 "ranks 4 = 12; try 48");
  EXPECT_EQ(error_with(overrides_of({3, 10, 0, 0})),
            at + "does not divide; got 10, expected a multiple of gradient_accumulation_steps 1 x "
                 "ranks 3 = 3; try 9");
  EXPECT_EQ(error_with(overrides_of({4, 48, 4, 2})),
            at + "contradicts its factors; got 48, expected micro_batch_size 4 x "
                 "gradient_accumulation_steps 2 x ranks 4 = 32; leave one of them out");
}

TEST(Resolve, RefusesSectionsThatContradictEachOther) {
  EXPECT_EQ(
      error_with({"model.n_embd=100", "model.n_head=3"}),
      "[config] --set model.n_embd: model.n_embd does not divide into heads; got 100, expected "
      "a multiple of n_head 3");
  EXPECT_EQ(
      error_with({"schedule.warmup_steps=200"}),
      "[config] --set schedule.warmup_steps: schedule.warmup_steps; got 200, expected at most "
      "run.steps 100");
  EXPECT_EQ(error_with({"run.steps=5", "schedule.warmup_steps=5"}), "no error");
  EXPECT_EQ(
      error_with({"schedule.name=cosine", "schedule.min_lr=0.1"}),
      "[config] --set schedule.min_lr: schedule.min_lr; got 0.1, expected at most optimizer.lr "
      "0.001");
  EXPECT_EQ(error_with({"run.eval_every=10", "data.val_fraction=0"}),
            "[config] --set run.eval_every: run.eval_every needs a validation split; got "
            "data.val_fraction 0, expected > 0");
  EXPECT_EQ(error_with({"optimizer.momentum=0.9"}),
            "[config] --set optimizer.momentum: optimizer.momentum is sgd's; got 0.9 with adamw, "
            "expected 0; adamw has betas");
  EXPECT_EQ(error_with({"optimizer.momentum=0.9", "optimizer.name=sgd"}), "no error");
  EXPECT_EQ(error_with({"optimizer.momentum=0.9", "optimizer.name=lion"}),
            "[config] --set optimizer.momentum: optimizer.momentum is sgd's; got 0.9 with lion, "
            "expected 0; lion has betas");
  for (const std::string& name : optim::optimizer_names()) {
    EXPECT_EQ(error_with({"optimizer.name=" + name}), "no error");
  }
  EXPECT_EQ(error_with({"run.name=a/b"}),
            "[config] --set run.name: run.name; got \"a/b\", expected the name of one folder");
  EXPECT_EQ(
      error_with({"data.path=[]"}),
      "[config] --set data.path: data.path is not set; expected text files or .bin shards; try "
      "--set data.path=FILE");
}

TEST(Resolve, BlamesTheFileForADefault) {
  RunConfig config = parse_config("[model]\nn_head = 3\n", "demo.toml");
  try {
    resolve(config);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_STREQ(error.what(),
                 "[config] demo.toml: model.n_embd does not divide into heads; got 128, expected a "
                 "multiple of n_head 3");
  }
}

TEST(Resolve, SharesTheMachineAmongTheRanks) {
  const RunConfig one = resolved({"launch.ranks=1"});
  const RunConfig many = resolved({"launch.ranks=256"});
  EXPECT_GE(one.launch.threads_per_rank, 1);
  EXPECT_GE(many.launch.threads_per_rank, 1);
  EXPECT_GT(many.launch.memory_limit, 0);
  EXPECT_EQ(many.launch.memory_limit, one.launch.memory_limit / 256);
  const RunConfig fixed = resolved({"launch.threads_per_rank=3", "launch.memory_limit=1GB"});
  EXPECT_EQ(fixed.launch.threads_per_rank, 3);
  EXPECT_EQ(fixed.launch.memory_limit, 1'000'000'000);
}

}  // namespace
}  // namespace zerolab::app
