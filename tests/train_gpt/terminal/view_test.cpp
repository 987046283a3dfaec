#include "apps/train_gpt/terminal/view.h"

#include <gtest/gtest.h>

#include "apps/train_gpt/text/display_width.h"

namespace zerolab::app {
namespace {

using Lines = std::vector<std::string>;

constexpr int64_t kMiB = 1 << 20;

/// 30 MiB at the peak, 21 of them now.
MemoryLedger::Snapshot memory() {
  MemoryLedger::Snapshot memory;
  const auto holds = [&](Category category, int64_t bytes) {
    memory.at_total_peak[static_cast<int>(category)] = bytes;
  };
  holds(Category::kParameters, 8 * kMiB);
  holds(Category::kGradients, 1 * kMiB);
  holds(Category::kGradientBuckets, 3 * kMiB);
  holds(Category::kOptimizerState, 4 * kMiB);
  holds(Category::kMasterWeights, 2 * kMiB);
  holds(Category::kActivations, 7 * kMiB);
  holds(Category::kLogits, 2 * kMiB);
  holds(Category::kWorkspace, 3 * kMiB);
  memory.total = 21 * kMiB;
  memory.total_peak = 30 * kMiB;
  return memory;
}

RunConfig limited_config(int64_t memory_limit) {
  RunConfig config;
  config.run.name = "demo";
  config.run.steps = 100;
  config.launch.ranks = 2;
  config.launch.memory_limit = memory_limit;
  config.train.gradient_accumulation_steps = 3;
  return config;
}

ViewedStep step(int ranks) {
  StepRecord record;
  record.step = 50;
  record.stage = 2;
  record.result.loss = 2.34567;
  record.result.tokens = 1000;
  record.ms.step = 80;
  record.ms.comm_exposed = 10;
  record.memory.assign(ranks, memory());
  return {record, 75};
}

History losses() {
  History losses;
  for (const double loss : {5.0, 4.0, 3.0, 2.34567}) {
    losses.add(loss);
  }
  return losses;
}

Lines view(const Terminal& terminal, int ranks = 2, int64_t memory_limit = 16 << 30) {
  return view_lines(limited_config(memory_limit), step(ranks), losses(), terminal);
}

TEST(TerminalView, ShowsARunInAFewLines) {
  EXPECT_EQ(
      view({.live = true}),
      (Lines{"demo  ZeRO-2  2 ranks  k = 3  fp32",
             "step  50/100  [==========================                          ]  1:15 left",
             "loss 2.3457  #=-_",
             "P=parameters G=gradients O=optimizer A=activations R=rest  of 30.0 MiB",
             "rank 0  [PPPPPPPPPPGGGGOOOOOOOOAAAAAAAAAARRRR]  now   21.0 MiB  peak   30.0 MiB",
             "rank 1  [PPPPPPPPPPGGGGOOOOOOOOAAAAAAAAAARRRR]  now   21.0 MiB  peak   30.0 MiB",
             "12.5k tok/s  exposed comm 12 %  80.0 ms/step"}));
}

TEST(TerminalView, FitsIntoFortyColumns) {
  EXPECT_EQ(view({.live = true, .columns = 40}),
            (Lines{"demo  ZeRO-2  2 ranks  k = 3  fp32", "step  50/100  [======      ]  1:15 left",
                   "loss 2.3457  #=-_", "P=param G=gradi O=optim A=activ R=rest",
                   "rank 0  [PPPGGOOAAAAR]  peak   30.0 MiB",
                   "rank 1  [PPPGGOOAAAAR]  peak   30.0 MiB", "12.5k tok/s  exposed comm 12 %"}));
}

TEST(TerminalView, DrawsBlocksOfColor) {
  const Lines lines = view({.live = true, .color = true, .unicode = true, .columns = 40});
  EXPECT_EQ(lines[1], "step  50/100  [\x1b[32m██████\x1b[0m      ]  1:15 left");
  EXPECT_EQ(lines[2], "loss 2.3457  █▅▃▁");
  EXPECT_EQ(lines[4],
            "rank 0  [\x1b[34m███\x1b[0m\x1b[33m██\x1b[0m\x1b[35m██\x1b[0m\x1b[32m████\x1b[0m"
            "\x1b[90m█\x1b[0m]  peak   30.0 MiB");
}

TEST(TerminalView, ColorsLettersWhereThereIsNoUnicode) {
  const Lines lines = view({.live = true, .color = true, .columns = 40});
  EXPECT_EQ(lines[1], "step  50/100  [\x1b[32m======\x1b[0m      ]  1:15 left");
  EXPECT_EQ(lines[2], "loss 2.3457  #=-_");
}

TEST(TerminalView, ABarIsFullAtTheLimitWhereARankComesNearIt) {
  const Lines near = view({.live = true, .columns = 60}, 1, 60 * kMiB);
  EXPECT_EQ(near[4], "rank 0  [PPGOOAAR        ]  now   21.0 MiB  peak   30.0 MiB");
  const Lines wide = view({.live = true}, 1, 60 * kMiB);
  EXPECT_TRUE(wide[3].ends_with("  of 60.0 MiB")) << wide[3];
}

TEST(TerminalView, NamesTheFirstOfManyRanks) {
  const Lines lines = view({.live = true}, 100);
  ASSERT_EQ(lines.size(), 10);
  EXPECT_TRUE(lines[7].starts_with("rank 3  ["));
  EXPECT_EQ(lines[8], "... and 96 more, max 30.0 MiB");
  EXPECT_EQ(view({.live = true, .unicode = true}, 5)[8], "… and 1 more, max 30.0 MiB");
}

TEST(TerminalView, IsOneLineWhereThereIsNoRoom) {
  const std::string line = "step  50/100  loss 2.3457  12.5k tok/s  30.0 MiB/rank  1:15 left";
  EXPECT_EQ(step_line(limited_config(0), step(2)), line);
  EXPECT_EQ(view({.live = true, .columns = 30}), Lines{line.substr(0, 29)});
  EXPECT_EQ(view({.live = true, .rows = 7}), Lines{line});
  EXPECT_EQ(view({.live = true, .rows = 8}).size(), 7);
}

TEST(TerminalView, NeverFillsTheTerminalsLastColumn) {
  for (const bool color : {false, true}) {
    for (int columns = 1; columns <= 300; ++columns) {
      const Terminal terminal = {
          .live = true, .color = color, .unicode = color, .columns = columns, .rows = 50};
      for (const std::string& line : view(terminal, 7)) {
        EXPECT_LE(display_width(line), std::max(columns - 1, 1)) << columns << ": " << line;
      }
    }
  }
}

TEST(TerminalView, WideAndCombiningCharactersTakeTheirColumns) {
  const auto title = [](const std::string& name) {
    RunConfig named = limited_config(0);
    named.run.name = name;
    return view_lines(named, step(1), {}, {.live = true, .unicode = true, .columns = 40})[0];
  };
  const std::string name = "損失 e\u0301 🚀";  // 4 + 1 + 1 + 1 + 2 columns
  EXPECT_EQ(title(name), name + "  ZeRO-2  2 ranks  k = 3  fp32");
  EXPECT_EQ(display_width(title(name)), 39);
  EXPECT_EQ(title(name + "!"), name + "!  ZeRO-2  2 ranks  k = 3");
}

TEST(TerminalView, SurvivesAnythingInAStep) {
  StepRecord record;
  record.step = 1;
  record.result.loss = NAN;
  record.memory.resize(1);  // of a rank that has failed
  RunConfig odd = limited_config(0);
  odd.run.name = "a\x1b[2J\nb";
  const Lines lines = view_lines(odd, {record, -1}, {}, {.live = true});
  EXPECT_EQ(lines[0], "a?[2J?b  DDP  2 ranks  k = 3  fp32");
  EXPECT_EQ(lines[2], "loss nan");
  EXPECT_TRUE(lines[4].ends_with("  now        0 B  peak        0 B")) << lines[4];
  EXPECT_EQ(lines[5], "0 tok/s  exposed comm 0 %  0.0 ms/step");
}

}  // namespace
}  // namespace zerolab::app
