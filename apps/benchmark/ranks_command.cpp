#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/command.h"
#include "apps/benchmark/measured_variant.h"
#include "apps/benchmark/options.h"
#include "apps/train_gpt/text/text_table.h"
#include "framework/onednn/backend.h"
#include "zero/options.h"

namespace zerolab::bench {
namespace {

struct RanksCommand {
  TrainingOptions training;  ///< of one of the ranks
  int cores = 1;
  int rounds = 5;    ///< of one step of every variant; one before them warms up
  std::string json;  ///< file; empty: none
};

/// One rank with the global batch against several ranks under every stage, in turn, and prints what
/// the ranks lose.
void run_ranks_against_one(const RanksCommand& command, Backend& backend) {
  const TrainingOptions& ranked = command.training;
  std::vector<MeasuredVariant> variants;
  TrainingOptions single = ranked;
  single.ranks = 1;
  single.threads = command.cores;
  single.batch_size = ranked.batch_size * ranked.ranks;
  variants.push_back({"one rank", std::make_unique<TrainingGroup>(single, backend)});
  for (const int stage : zero::kStages) {
    TrainingOptions options = ranked;
    options.engine.stage = stage;
    variants.push_back({fmt::format("{} ranks, {}", ranked.ranks, zero::name_of_stage(stage)),
                        std::make_unique<TrainingGroup>(options, backend)});
  }
  take_turns(variants, command.rounds);

  fmt::print(
      "{:.1f} M parameters, {} tokens a step, {} cores; one rank: {} thread(s), {} ranks: {} "
      "thread(s) each; {} rounds\n",
      static_cast<double>(variants[0].group->num_params()) / 1e6, single.global_tokens(),
      command.cores, single.threads, ranked.ranks, ranked.threads, command.rounds);
  std::vector<app::TableRow> table = {{"", "median ms", "range ms", "CPU s", "tokens/s",
                                       "against one", "best of it", "over DDP", "best of it"}};
  nlohmann::json rows = nlohmann::json::array();
  for (const MeasuredVariant& variant : variants) {
    const double seconds = variant.median_of(&StepMeasurement::seconds);
    const double cpu_seconds = variant.median_of(&StepMeasurement::cpu_seconds);
    const double tokens_per_s = static_cast<double>(single.global_tokens()) / seconds;
    const auto against = [&](const MeasuredVariant& other) {
      return 1.0 / variant.time_over(other) - 1.0;
    };
    const auto best_against = [&](const MeasuredVariant& other) {
      return 1.0 / variant.best_time_over(other) - 1.0;
    };
    const double against_one = against(variants[0]);
    const double against_ddp = against(variants[1]);
    const auto percent = [](double part) { return fmt::format("{:+.1f}%", part * 100); };
    table.push_back({variant.name, fmt::format("{:.1f}", seconds * 1e3), variant.range_ms(),
                     fmt::format("{:.2f}", cpu_seconds), fmt::format("{:.0f}", tokens_per_s),
                     percent(against_one), percent(best_against(variants[0])), percent(against_ddp),
                     percent(best_against(variants[1]))});
    rows.push_back({{"variant", variant.name},
                    {"step_ms", seconds * 1e3},
                    {"tokens_per_s", tokens_per_s},
                    {"cpu_seconds", cpu_seconds},
                    {"against_one_rank", against_one},
                    {"against_one_rank_best", best_against(variants[0])},
                    {"against_ddp", against_ddp},
                    {"against_ddp_best", best_against(variants[1])}});
  }
  fmt::print("{}", app::text_table(table, {app::kLeftColumn}));
  write_result(command.json, {{"command", "ranks"},
                              {"ranks", ranked.ranks},
                              {"global_tokens", single.global_tokens()},
                              {"rounds", command.rounds},
                              {"variants", rows}});
}

}  // namespace

Command add_ranks(CLI::App& program) {
  const auto command = std::make_shared<RanksCommand>();
  CLI::App* const line = program.add_subcommand(
      "ranks",
      "The 10M model: one rank with the global batch against several ranks that share the "
      "same cores, under DDP, ZeRO-1 and ZeRO-2.\n"
      "The variants take turns, one step each a round; ratios are medians over the rounds, "
      "so that drift cancels.");
  command->training = {.model = model_10m(), .batch_size = 8, .block_length = 256, .ranks = 4};
  command->cores = num_cores();
  add_count(*line, "--ranks", command->training.ranks, "Ranks to share the cores");
  add_count(*line, "--batch", command->training.batch_size,
            "Sequences of 256 tokens a rank and step");
  add_count(*line, "--rounds", command->rounds, "Measured rounds, after one that warms up");
  add_json(*line, command->json);
  return {line, [command] {
            command->training.threads = threads_of_a_rank(command->training.ranks);
            run_ranks_against_one(*command, *make_onednn_backend());
          }};
}

}  // namespace zerolab::bench
