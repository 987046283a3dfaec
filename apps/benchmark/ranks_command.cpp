#include "apps/benchmark/ranks_command.h"

#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/variant.h"
#include "zero/options.h"

namespace zerolab::bench {

void run_ranks_command(const RanksCommand& command, Backend& backend) {
  const TrainingOptions& ranked = command.training;
  std::vector<Variant> variants;
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
  fmt::print("{:<18} {:>9} {:>18} {:>7} {:>8} {:>11} {:>11} {:>11} {:>11}\n", "", "median ms",
             "range ms", "CPU s", "tokens/s", "against one", "best of it", "over DDP",
             "best of it");
  nlohmann::json rows = nlohmann::json::array();
  for (const Variant& variant : variants) {
    const double seconds = variant.median_of(&StepMeasurement::seconds);
    const double cpu_seconds = variant.median_of(&StepMeasurement::cpu_seconds);
    const double tokens_per_s = static_cast<double>(single.global_tokens()) / seconds;
    const auto against = [&](const Variant& other) { return 1.0 / variant.time_over(other) - 1.0; };
    const auto best_against = [&](const Variant& other) {
      return 1.0 / variant.best_time_over(other) - 1.0;
    };
    const double against_one = against(variants[0]);
    const double against_ddp = against(variants[1]);
    fmt::print(
        "{:<18} {:>9.1f} {:>18} {:>7.2f} {:>8.0f} {:>+10.1f}% {:>+10.1f}% {:>+10.1f}% "
        "{:>+10.1f}%\n",
        variant.name, seconds * 1e3, variant.range_ms(), cpu_seconds, tokens_per_s,
        against_one * 100, best_against(variants[0]) * 100, against_ddp * 100,
        best_against(variants[1]) * 100);
    rows.push_back({{"variant", variant.name},
                    {"step_ms", seconds * 1e3},
                    {"tokens_per_s", tokens_per_s},
                    {"cpu_seconds", cpu_seconds},
                    {"against_one_rank", against_one},
                    {"against_one_rank_best", best_against(variants[0])},
                    {"against_ddp", against_ddp},
                    {"against_ddp_best", best_against(variants[1])}});
  }
  if (!command.json.empty()) {
    const nlohmann::json record = {{"command", "ranks"},
                                   {"ranks", ranked.ranks},
                                   {"global_tokens", single.global_tokens()},
                                   {"rounds", command.rounds},
                                   {"variants", rows}};
    std::ofstream(command.json) << record.dump(2) << '\n';
  }
}

}  // namespace zerolab::bench
