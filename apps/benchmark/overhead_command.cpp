#include "apps/benchmark/overhead_command.h"

#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/variant.h"
#include "framework/core/error.h"

namespace zerolab::bench {

void run_overhead_command(const OverheadCommand& command, Backend& backend) {
  std::vector<Variant> variants;
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
  fmt::print("{:<28} {:>9} {:>18} {:>8} {:>12} {:>11}\n", "", "median ms", "range ms", "CPU s",
             "over plain", "best of it");
  nlohmann::json rows = nlohmann::json::array();
  for (const Variant& variant : variants) {
    require(variant.values(&StepMeasurement::loss) == variants[0].values(&StepMeasurement::loss),
            "benchmark", "the losses of \"{}\" are not those of the plain loop, bit by bit",
            variant.name);
    const double seconds = variant.median_of(&StepMeasurement::seconds);
    const double cpu_seconds = variant.median_of(&StepMeasurement::cpu_seconds);
    const double cost = variant.time_over(variants[0]) - 1.0;
    const double best_cost = variant.best_time_over(variants[0]) - 1.0;
    fmt::print("{:<28} {:>9.1f} {:>18} {:>8.2f} {:>+11.2f}% {:>+10.2f}%\n", variant.name,
               seconds * 1e3, variant.range_ms(), cpu_seconds, cost * 100, best_cost * 100);
    rows.push_back({{"variant", variant.name},
                    {"step_ms", seconds * 1e3},
                    {"cpu_seconds", cpu_seconds},
                    {"over_plain", cost},
                    {"over_plain_best", best_cost}});
  }
  if (!command.json.empty()) {
    const nlohmann::json record = {{"command", "overhead"},
                                   {"parameters", variants[0].group->num_params()},
                                   {"tokens", options.global_tokens()},
                                   {"threads", options.threads},
                                   {"rounds", command.rounds},
                                   {"variants", rows}};
    std::ofstream(command.json) << record.dump(2) << '\n';
  }
}

}  // namespace zerolab::bench
