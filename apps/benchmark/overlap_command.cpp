#include "apps/benchmark/overlap_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/variant.h"
#include "framework/core/error.h"
#include "zero/cost_model.h"

namespace zerolab::bench {
namespace {

/// Where one rank's step went, milliseconds.
struct RankTimes {
  double backward = 0.0;
  double transfer = 0.0;         ///< of gradients
  double last_transfer = 0.0;    ///< of the last bucket's, which nothing can hide
  double exposed = 0.0;          ///< the compute stream stood still for gradients
  double exposed_end = 0.0;      ///< of that, after the backward
  double exposed_gathers = 0.0;  ///< it stood still for parameters

  RankTimes(const std::vector<Span>& spans, int last_bucket) {
    Clock::time_point end_of_backward;
    for (const Span& span : spans) {
      if (span.kind == SpanKind::kBackward) {
        backward += span.milliseconds();
        end_of_backward = span.end;
      }
    }
    for (const Span& span : spans) {
      const bool gathers = span.name == "all_gather";
      if (span.kind == SpanKind::kCommTransfer && !gathers) {
        transfer += span.milliseconds();
        last_transfer += span.bucket == last_bucket ? span.milliseconds() : 0.0;
      } else if (span.kind == SpanKind::kCommExposed && gathers) {
        exposed_gathers += span.milliseconds();
      } else if (span.kind == SpanKind::kCommExposed && span.name == "reduce") {
        exposed += span.milliseconds();
        exposed_end += span.begin >= end_of_backward ? span.milliseconds() : 0.0;
      }
    }
  }

  /// The backward without the reductions that it waited for.
  double computing() const { return backward - (exposed - exposed_end); }
  /// The part of what could be hidden that was.
  double hidden() const {
    return std::clamp((transfer - exposed) / (transfer - last_transfer), 0.0, 1.0);
  }
};

/// The steps of one variant, and what all of them sent.
struct OverlapVariant : Variant {
  std::vector<double> losses = {};  ///< of all steps
  int64_t bytes_sent = 0;           ///< by rank 0: gradients and parameters

  /// One step that settles, `count` that are measured, one that ends with its gathers.
  void take_turn(int count) {
    for (int i = 0; i < count + 2; ++i) {
      StepMeasurement step = group->step(/*followed=*/i <= count);
      losses.push_back(step.loss);
      for (const auto& [key, entry] : step.communication) {
        bytes_sent += key.second == Purpose::kControl ? 0 : entry.bytes_sent;
      }
      if (i > 0 && i <= count) {
        steps.push_back(std::move(step));
      }
    }
  }

  std::vector<RankTimes> times() const {
    const auto last_bucket = static_cast<int>(group->layout().buckets().size()) - 1;
    std::vector<RankTimes> result;
    for (const StepMeasurement& step : steps) {
      for (const std::vector<Span>& spans : step.spans) {
        result.emplace_back(spans, last_bucket);
      }
    }
    return result;
  }

  /// Over ranks and steps.
  template <typename Value>
  double median_of_times(Value value) const {
    std::vector<double> values;
    for (const RankTimes& rank : times()) {
      values.push_back(std::invoke(value, rank));
    }
    return median(values);
  }

  /// Counted bytes of a step over 2Ψ(N−1)/N fp32 elements.
  double volume() const {
    const double ranks = group->options().ranks;
    return static_cast<double>(bytes_sent) / static_cast<double>(losses.size()) /
           (2.0 * static_cast<double>(group->num_params()) * (ranks - 1) / ranks * sizeof(float));
  }
};

/// The link on which a step's gradients take half of a backward.
double bandwidth_gbps(const TrainingOptions& options, const zero::Layout& layout,
                      double backward_ms) {
  const zero::StagePlan plan(options.engine, options.dtype, options.ranks);
  const auto bytes = static_cast<double>(zero::communication_bytes(layout, plan, 0).gradients);
  return bytes * 8 / (backward_ms / 2 * 1e-3) / 1e9;
}

nlohmann::json print_row(const OverlapVariant& variant) {
  const TrainingOptions& options = variant.group->options();
  const double backward = variant.median_of_times(&RankTimes::computing);
  const double transfer = variant.median_of_times(&RankTimes::transfer);
  const double last = variant.median_of_times(&RankTimes::last_transfer);
  const double exposed = variant.median_of_times(&RankTimes::exposed);
  const double exposed_end = variant.median_of_times(&RankTimes::exposed_end);
  const double hidden = variant.median_of_times(&RankTimes::hidden);
  const double gathers = variant.median_of_times(&RankTimes::exposed_gathers);
  const double seconds = variant.median_of(&StepMeasurement::seconds);
  fmt::print(
      "{:<19} {:>7.3f} {:>9.1f} {:>9.1f} {:>6.1f} {:>8.1f} {:>7.1f} {:>7.1f}% {:>8.1f} {:>8.1f} "
      "{:>17} {:>8.4f}x\n",
      variant.name, options.link.bandwidth_gbps, backward, transfer, last, exposed, exposed_end,
      hidden * 100, gathers, seconds * 1e3, variant.range_ms(), variant.volume());
  return {{"variant", variant.name},
          {"modelled_link_gbps", options.link.bandwidth_gbps},
          {"backward_ms", backward},
          {"gradients_ms", transfer},
          {"last_bucket_ms", last},
          {"exposed_ms", exposed},
          {"exposed_after_backward_ms", exposed_end},
          {"hidden", hidden},
          {"exposed_gathers_ms", gathers},
          {"step_ms", seconds * 1e3},
          {"volume", variant.volume()}};
}

nlohmann::json run_model(const OverlapCommand& command, bool tied, Backend& backend) {
  TrainingOptions options = command.training;
  options.model.tie_weights = tied;
  TrainingOptions unlinked = options;
  unlinked.link = {};
  OverlapVariant free_variant = {{"no link", std::make_unique<TrainingGroup>(unlinked, backend)}};
  free_variant.take_turn(2 * command.steps);
  const double backward_ms = free_variant.median_of_times(&RankTimes::computing);
  const zero::Layout& layout = free_variant.group->layout();

  std::vector<OverlapVariant> variants;
  for (const int stage : zero::kStages) {
    for (const bool overlap_comm : {false, true}) {
      options.engine.stage = stage;
      options.engine.overlap_comm = overlap_comm;
      options.link.bandwidth_gbps = bandwidth_gbps(options, layout, backward_ms);
      variants.push_back(
          {{fmt::format("{}, overlap {}", zero::name_of_stage(stage), overlap_comm ? "on" : "off"),
            std::make_unique<TrainingGroup>(options, backend)}});
    }
  }
  for (int round = 0; round < command.rounds; ++round) {
    for (OverlapVariant& variant : variants) {
      variant.take_turn(command.steps);
    }
  }

  fmt::print(
      "{} head: {:.2f} M parameters, {} buckets, {} ranks x {} thread(s), {} tokens a step, {} "
      "steps; backward without communication {:.1f} ms; modelled link, latency {} us\n",
      tied ? "tied" : "untied", static_cast<double>(layout.num_params()) / 1e6,
      layout.buckets().size(), options.ranks, options.threads, options.global_tokens(),
      variants[0].steps.size(), backward_ms, options.link.latency_us);
  fmt::print("{:<19} {:>7} {:>9} {:>9} {:>6} {:>8} {:>7} {:>8} {:>8} {:>8} {:>17} {:>9}\n",
             "milliseconds", "Gbit/s", "backward", "gradients", "last", "exposed", "at end",
             "hidden", "gathers", "step", "range of steps", "volume");
  nlohmann::json rows = nlohmann::json::array();
  for (const OverlapVariant& variant : variants) {
    require(variant.losses == variants[0].losses, "benchmark",
            "the losses of \"{}\" are not those of \"{}\", bit by bit", variant.name,
            variants[0].name);
    rows.push_back(print_row(variant));
  }
  fmt::print("the losses of all {} steps: the same bits in every row\n\n",
             variants[0].losses.size());
  return {{"tied", tied},
          {"parameters", layout.num_params()},
          {"buckets", layout.buckets().size()},
          {"backward_ms", backward_ms},
          {"variants", rows}};
}

}  // namespace

void run_overlap_command(const OverlapCommand& command, Backend& backend) {
  const nlohmann::json models = {run_model(command, true, backend),
                                 run_model(command, false, backend)};
  if (!command.json.empty()) {
    const TrainingOptions& options = command.training;
    const nlohmann::json record = {{"command", "overlap"},
                                   {"ranks", options.ranks},
                                   {"tokens", options.global_tokens()},
                                   {"latency_us", options.link.latency_us},
                                   {"rounds", command.rounds},
                                   {"models", models}};
    std::ofstream(command.json) << record.dump(2) << '\n';
  }
}

}  // namespace zerolab::bench
