#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/command.h"
#include "apps/benchmark/measured_variant.h"
#include "apps/benchmark/options.h"
#include "apps/train_gpt/text/text_table.h"
#include "framework/core/error.h"
#include "framework/onednn/backend.h"

namespace zerolab::bench {
namespace {

struct OverheadCommand {
  TrainingOptions training;  ///< of one rank
  int rounds = 15;           ///< of one step of every variant; one before them warms up
  std::string json;          ///< file; empty: none
};

/// One rank's plain loop without the engine against the engine under every stage, in turn, and
/// prints what the engine costs. Throws when their losses are not the same bits.
void run_overhead(const OverheadCommand& command, Backend& backend) {
  std::vector<MeasuredVariant> variants;
  TrainingOptions options = command.training;
  options.with_engine = false;
  variants.push_back({"plain loop", std::make_unique<TrainingGroup>(options, backend)});
  options.with_engine = true;
  const auto add_engine = [&](int stage, bool overlap_comm) {
    options.engine.stage = stage;
    options.engine.overlap_comm = overlap_comm;
    variants.push_back({fmt::format("engine, {}{}", zero::name_of_stage(stage),
                                    overlap_comm ? ", overlap_comm" : ""),
                        std::make_unique<TrainingGroup>(options, backend)});
  };
  add_engine(0, false);
  add_engine(1, false);
  add_engine(2, false);
  add_engine(2, true);
  take_turns(variants, command.rounds);

  fmt::print("{:.1f} M parameters, {} tokens a step, one rank, {} thread(s), {} rounds\n",
             static_cast<double>(variants[0].group->num_params()) / 1e6, options.global_tokens(),
             options.threads, command.rounds);
  std::vector<app::TableRow> table = {
      {"", "median ms", "range ms", "CPU s", "over plain", "best of it"}};
  nlohmann::json rows = nlohmann::json::array();
  for (const MeasuredVariant& variant : variants) {
    require(variant.values(&StepMeasurement::loss) == variants[0].values(&StepMeasurement::loss),
            "benchmark", "the losses of \"{}\" are not those of the plain loop, bit by bit",
            variant.name);
    const double seconds = variant.median_of(&StepMeasurement::seconds);
    const double cpu_seconds = variant.median_of(&StepMeasurement::cpu_seconds);
    const double cost = variant.time_over(variants[0]) - 1.0;
    const double best_cost = variant.best_time_over(variants[0]) - 1.0;
    table.push_back({variant.name, fmt::format("{:.1f}", seconds * 1e3), variant.range_ms(),
                     fmt::format("{:.2f}", cpu_seconds), fmt::format("{:+.2f}%", cost * 100),
                     fmt::format("{:+.2f}%", best_cost * 100)});
    rows.push_back({{"variant", variant.name},
                    {"step_ms", seconds * 1e3},
                    {"cpu_seconds", cpu_seconds},
                    {"over_plain", cost},
                    {"over_plain_best", best_cost}});
  }
  fmt::print("{}", app::text_table(table, {app::kLeftColumn}));
  write_result(command.json, {{"command", "overhead"},
                              {"parameters", variants[0].group->num_params()},
                              {"tokens", options.global_tokens()},
                              {"threads", options.threads},
                              {"rounds", command.rounds},
                              {"variants", rows}});
}

}  // namespace

Command add_overhead(CLI::App& program) {
  const auto command = std::make_shared<OverheadCommand>();
  CLI::App* const line = program.add_subcommand(
      "overhead",
      "What the engine costs one rank: the 10M model in a plain loop (gradients in tensors "
      "of their own, the same clipping, AdamW by\n"
      "parameter) against the engine under every stage. The variants take turns, one step "
      "each a round; ratios are medians over the rounds.");
  command->training = {.model = model_10m(), .batch_size = 4, .block_length = 256};
  command->training.threads = num_cores();
  add_count(*line, "--batch", command->training.batch_size, "Sequences of 256 tokens a step");
  add_count(*line, "--rounds", command->rounds, "Measured rounds, after one that warms up");
  add_json(*line, command->json);
  return {line, [command] { run_overhead(*command, *make_onednn_backend()); }};
}

}  // namespace zerolab::bench
