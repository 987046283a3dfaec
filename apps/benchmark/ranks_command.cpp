#include "apps/benchmark/ranks_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "zero/options.h"

namespace zerolab::bench {
namespace {

/// One way to train on the same global batch, and its steps.
struct Variant {
  std::string name;
  std::unique_ptr<TrainingGroup> group;
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;

  /// Of times or of ratios.
  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    const size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  }

  double tokens_per_s() const {
    return static_cast<double>(group->options().global_tokens()) / median(seconds);
  }

  /// The other's time over this one's, round by round, so that what slows a whole round cancels.
  double speed_against(const Variant& other) const {
    std::vector<double> ratios;
    for (size_t round = 0; round < seconds.size(); ++round) {
      ratios.push_back(other.seconds[round] / seconds[round]);
    }
    return median(ratios);
  }
};

}  // namespace

void run_ranks_command(const RanksCommand& command, Backend& backend) {
  const TrainingOptions& ranked = command.training;
  std::vector<Variant> variants;
  TrainingOptions single = ranked;
  single.ranks = 1;
  single.threads = command.cores;
  single.batch_size = ranked.batch_size * ranked.ranks;
  variants.push_back({"one rank", std::make_unique<TrainingGroup>(single, backend), {}, {}});
  for (int stage = 0; stage <= 2; ++stage) {
    TrainingOptions options = ranked;
    options.stage = stage;
    variants.push_back({fmt::format("{} ranks, {}", ranked.ranks, zero::name_of_stage(stage)),
                        std::make_unique<TrainingGroup>(options, backend),
                        {},
                        {}});
  }
  for (int round = 0; round <= command.rounds; ++round) {
    for (size_t turn = 0; turn < variants.size(); ++turn) {
      // Another one begins each round, so that none is always behind the same neighbour.
      Variant& variant = variants[(turn + round) % variants.size()];
      const StepMeasurement measured = variant.group->step();
      if (round > 0) {
        variant.seconds.push_back(measured.seconds);
        variant.cpu_seconds.push_back(measured.cpu_seconds);
      }
    }
  }

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
    const auto [least, most] = std::ranges::minmax(variant.seconds);
    const auto best_against = [&, least = least](const Variant& other) {
      return std::ranges::min(other.seconds) / least - 1.0;
    };
    const double against_one = variant.speed_against(variants[0]) - 1.0;
    const double against_ddp = variant.speed_against(variants[1]) - 1.0;
    fmt::print(
        "{:<18} {:>9.1f} {:>18} {:>7.2f} {:>8.0f} {:>+10.1f}% {:>+10.1f}% {:>+10.1f}% "
        "{:>+10.1f}%\n",
        variant.name, Variant::median(variant.seconds) * 1e3,
        fmt::format("{:.1f} to {:.1f}", least * 1e3, most * 1e3),
        Variant::median(variant.cpu_seconds), variant.tokens_per_s(), against_one * 100,
        best_against(variants[0]) * 100, against_ddp * 100, best_against(variants[1]) * 100);
    rows.push_back({{"variant", variant.name},
                    {"step_ms", Variant::median(variant.seconds) * 1e3},
                    {"tokens_per_s", variant.tokens_per_s()},
                    {"cpu_seconds", Variant::median(variant.cpu_seconds)},
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
