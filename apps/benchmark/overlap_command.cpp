#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/benchmark/command.h"
#include "apps/benchmark/measured_variant.h"
#include "apps/benchmark/options.h"
#include "apps/train_gpt/text/text_table.h"
#include "framework/core/error.h"
#include "framework/onednn/backend.h"
#include "zero/cost_model.h"

namespace zerolab::bench {
namespace {

struct OverlapCommand {
  TrainingOptions training;  ///< of one of at least two ranks; its link's bandwidth is set here
  int rounds = 3;            ///< in each of which every variant takes `steps` steps in a row
  int steps = 4;
  std::string json;  ///< file; empty: none
};

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
struct OverlapVariant : MeasuredVariant {
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

/// One row of the table, its numbers over ranks and steps.
struct OverlapRow {
  explicit OverlapRow(const OverlapVariant& variant)
      : variant(variant),
        link_gbps(variant.group->options().link.bandwidth_gbps),
        backward(variant.median_of_times(&RankTimes::computing)),
        transfer(variant.median_of_times(&RankTimes::transfer)),
        last(variant.median_of_times(&RankTimes::last_transfer)),
        exposed(variant.median_of_times(&RankTimes::exposed)),
        exposed_end(variant.median_of_times(&RankTimes::exposed_end)),
        hidden(variant.median_of_times(&RankTimes::hidden)),
        gathers(variant.median_of_times(&RankTimes::exposed_gathers)),
        step(variant.median_of(&StepMeasurement::seconds) * 1e3) {}

  static app::TableRow titles() {
    return {"milliseconds", "Gbit/s", "backward", "gradients", "last",           "exposed",
            "at end",       "hidden", "gathers",  "step",      "range of steps", "volume"};
  }
  app::TableRow cells() const {
    const auto ms = [](double value) { return fmt::format("{:.1f}", value); };
    return {variant.name,       fmt::format("{:.3f}", link_gbps),
            ms(backward),       ms(transfer),
            ms(last),           ms(exposed),
            ms(exposed_end),    fmt::format("{:.1f}%", hidden * 100),
            ms(gathers),        ms(step),
            variant.range_ms(), fmt::format("{:.4f}x", variant.volume())};
  }
  nlohmann::json to_json() const {
    return {{"variant", variant.name},
            {"modelled_link_gbps", link_gbps},
            {"backward_ms", backward},
            {"gradients_ms", transfer},
            {"last_bucket_ms", last},
            {"exposed_ms", exposed},
            {"exposed_after_backward_ms", exposed_end},
            {"hidden", hidden},
            {"exposed_gathers_ms", gathers},
            {"step_ms", step},
            {"volume", variant.volume()}};
  }

  const OverlapVariant& variant;
  double link_gbps;
  double backward;
  double transfer;
  double last;
  double exposed;
  double exposed_end;
  double hidden;
  double gathers;
  double step;
};

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
  std::vector<app::TableRow> table = {OverlapRow::titles()};
  nlohmann::json rows = nlohmann::json::array();
  for (const OverlapVariant& variant : variants) {
    require(variant.losses == variants[0].losses, "benchmark",
            "the losses of \"{}\" are not those of \"{}\", bit by bit", variant.name,
            variants[0].name);
    const OverlapRow row(variant);
    table.push_back(row.cells());
    rows.push_back(row.to_json());
  }
  fmt::print("{}", app::text_table(table, {app::kLeftColumn}));
  fmt::print("the losses of all {} steps: the same bits in every row\n\n",
             variants[0].losses.size());
  return {{"tied", tied},
          {"parameters", layout.num_params()},
          {"buckets", layout.buckets().size()},
          {"backward_ms", backward_ms},
          {"variants", rows}};
}

/// How much of the gradients' communication the backward hides, on a modelled link on which it
/// takes half of the backward: every stage with overlap off and on, with a tied and an untied
/// output layer. Throws when losses are not the same bits.
void run_overlap(const OverlapCommand& command, Backend& backend) {
  const nlohmann::json models = {run_model(command, true, backend),
                                 run_model(command, false, backend)};
  const TrainingOptions& options = command.training;
  write_result(command.json, {{"command", "overlap"},
                              {"ranks", options.ranks},
                              {"tokens", options.global_tokens()},
                              {"latency_us", options.link.latency_us},
                              {"rounds", command.rounds},
                              {"models", models}});
}

}  // namespace

Command add_overlap(CLI::App& program) {
  const auto command = std::make_shared<OverlapCommand>();
  CLI::App* const line = program.add_subcommand(
      "overlap",
      "How much of the gradients' communication overlap_comm hides: the 10M model, tied and "
      "untied, under every stage, on a modelled link on\n"
      "which a step's gradients take half of the backward.\n"
      "backward: without what it waited for; gradients: their transfers; last: the last bucket's, "
      "which nothing can hide; exposed: the\n"
      "computation stood still for gradients; at end: of that, after the backward; hidden: "
      "(gradients - exposed) / (gradients - last);\n"
      "gathers: the computation stood still for parameters; volume: bytes sent over those of 2 x "
      "parameters x (N - 1) / N elements.");
  command->training = {.model = model_10m(), .batch_size = 4, .block_length = 256, .ranks = 2};
  line->add_option("--ranks", command->training.ranks, "Ranks; each gets cores / ranks threads")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  add_count(*line, "--batch", command->training.batch_size,
            "Sequences of 256 tokens a rank and step");
  line->add_option("--bucket-size", command->training.engine.reduce_bucket_size,
                   "Elements of a bucket; 0: auto")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  line->add_option("--latency-us", command->training.link.latency_us,
                   "The link's latency, of each round of a collective")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_count(*line, "--rounds", command->rounds, "Rounds of a turn of every variant");
  add_count(*line, "--steps", command->steps,
            "Measured steps of a turn, between one before and one after them");
  add_json(*line, command->json);
  return {line, [command] {
            command->training.threads = threads_of_a_rank(command->training.ranks);
            run_overlap(*command, *make_onednn_backend());
          }};
}

}  // namespace zerolab::bench
