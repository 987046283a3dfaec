#include "apps/train_gpt/planning/plan_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "apps/train_gpt/metrics/metrics_records.h"
#include "apps/train_gpt/text/format.h"
#include "apps/train_gpt/text/text_table.h"

namespace zerolab::app {
namespace {

using Cells = std::vector<std::string>;
using Columns = std::vector<std::pair<std::string, std::function<std::string(const PlanRow&)>>>;

/// One unit a table, so that its numbers can be compared at sight.
struct Unit {
  std::string_view name = "kB";
  double size = 1e3;

  explicit Unit(double largest) {
    if (largest >= 1e10) {
      *this = Unit("GB", 1e9);
    } else if (largest >= 1e7) {
      *this = Unit("MB", 1e6);
    }
  }
  Unit(std::string_view unit_name, double unit_size) : name(unit_name), size(unit_size) {}
  std::string operator()(int64_t bytes) const {
    return fmt::format("{:.1f}", static_cast<double>(bytes) / size);
  }
};

Unit unit_of(const Plan& plan, const std::function<int64_t(const PlanRow&)>& bytes) {
  int64_t largest = 0;
  for (const PlanRow& row : plan.rows) {
    largest = std::max(largest, bytes(row));
  }
  return Unit(static_cast<double>(largest));
}

std::string table(const Plan& plan, const Columns& columns) {
  std::vector<Cells> cells = {{"ranks", "stage"}};
  for (const auto& [title, cell] : columns) {
    cells.front().push_back(title);
  }
  for (const PlanRow& row : plan.rows) {
    Cells& line =
        cells.emplace_back(Cells{fmt::format("{}", row.prediction.ranks),
                                 std::string(zero::name_of_stage(row.prediction.plan.stage))});
    for (const auto& [title, cell] : columns) {
      line.push_back(cell(row));
    }
  }
  return text_table(cells);
}

std::string states_table(const Plan& plan) {
  const Unit unit = unit_of(plan, [](const PlanRow& row) { return row.prediction.model_states(); });
  const auto held = [unit](Category category) {
    return [unit, category](const PlanRow& row) {
      return unit(row.prediction.memory.current_of(category));
    };
  };
  return fmt::format("\nModel states of a rank, {}\n", unit.name) +
         table(plan, {{"parameters", held(Category::kParameters)},
                      {"gradients", held(Category::kGradients)},
                      {"master weights", held(Category::kMasterWeights)},
                      {"optimizer state", held(Category::kOptimizerState)},
                      {"model states", [unit](const PlanRow& row) {
                         return unit(row.prediction.model_states());
                       }}});
}

std::string peak_table(const Plan& plan) {
  const Unit unit = unit_of(plan, [](const PlanRow& row) { return row.prediction.peak(); });
  const auto at_peak = [unit](std::vector<Category> categories) {
    return [unit, categories](const PlanRow& row) {
      int64_t bytes = 0;
      for (const Category category : categories) {
        bytes += row.prediction.memory.at_total_peak_of(category);
      }
      return unit(bytes);
    };
  };
  return fmt::format("\nMemory of a rank at a step's peak, {}; the peak while it starts\n",
                     unit.name) +
         table(plan,
               {{"model states", at_peak({Category::kParameters, Category::kGradients,
                                          Category::kMasterWeights, Category::kOptimizerState})},
                {"buckets", at_peak({Category::kGradientBuckets})},
                {"activations", at_peak({Category::kActivations})},
                {"logits", at_peak({Category::kLogits})},
                {"workspace", at_peak({Category::kWorkspace})},
                {"other", at_peak({Category::kCommunication, Category::kControl})},
                {"total",
                 [unit](const PlanRow& row) { return unit(row.prediction.memory.total_peak); }},
                {"start", [unit](const PlanRow& row) { return unit(row.prediction.start_peak); }}});
}

std::string largest_text(const LargestFit& largest) {
  return largest.value == 0 ? "none"
                            : fmt::format("{}{}", largest.more_fits ? ">= " : "", largest.value);
}

std::string fits_table(const Plan& plan, const DeviceModel& device) {
  return fmt::format("\nWhat fits {} a rank: by train.micro_batch_size, or by model.n_layer\n",
                     format_bytes(device.memory)) +
         table(plan,
               {{"the plan",
                 [&](const PlanRow& row) {
                   return row.prediction.peak() <= device.memory ? "fits" : "does not fit";
                 }},
                {"micro-batch", [](const PlanRow& row) { return largest_text(row.micro_batch); }},
                {"n_layer", [](const PlanRow& row) { return largest_text(row.model); }},
                {"parameters", [](const PlanRow& row) {
                   return row.model.value == 0
                              ? ""
                              : fmt::format("{:.2f} {}",
                                            static_cast<double>(row.model.num_params) /
                                                (row.model.num_params >= 1'000'000'000 ? 1e9 : 1e6),
                                            row.model.num_params >= 1'000'000'000 ? "B" : "M");
                 }}});
}

std::string step_table(const Plan& plan) {
  const auto sent = [](const PlanRow& row) {
    return row.prediction.bytes_sent(Purpose::kGradient) +
           row.prediction.bytes_sent(Purpose::kParameter);
  };
  const Unit unit = unit_of(plan, sent);
  const auto time = [](double StepTimes::*member) {
    return
        [member](const PlanRow& row) { return fmt::format("{:.3f}", row.prediction.ms.*member); };
  };
  return fmt::format("\nA step: {} a rank sends; predicted ms\n", unit.name) +
         table(plan, {{"gradients",
                       [unit](const PlanRow& row) {
                         return unit(row.prediction.bytes_sent(Purpose::kGradient));
                       }},
                      {"parameters",
                       [unit](const PlanRow& row) {
                         return unit(row.prediction.bytes_sent(Purpose::kParameter));
                       }},
                      {"sent", [unit, sent](const PlanRow& row) { return unit(sent(row)); }},
                      {"forward", time(&StepTimes::forward)},
                      {"backward", time(&StepTimes::backward)},
                      {"exposed", time(&StepTimes::comm_exposed)},
                      {"optimizer", time(&StepTimes::optimizer)},
                      {"step", time(&StepTimes::step)},
                      {"hidden", [](const PlanRow& row) {
                         return fmt::format("{:.3f}", row.prediction.ms.comm_hidden());
                       }}});
}

nlohmann::json largest_json(const LargestFit& largest) {
  return {{"value", largest.value},
          {"num_params", largest.num_params},
          {"more_fits", largest.more_fits}};
}

nlohmann::json row_json(const PlanRow& row) {
  const Prediction& prediction = row.prediction;
  return {{"ranks", prediction.ranks},
          {"stage", prediction.plan.stage},
          {"reduction", name_of(prediction.plan.reduction)},
          {"padding", prediction.padding},
          {"buckets", prediction.num_buckets},
          {"reduce_bucket_size", prediction.bucket_size},
          {"memory", memory_json(prediction.memory)},
          {"model_states", prediction.model_states()},
          {"start_peak", prediction.start_peak},
          {"comm", communication_json(prediction.communication)},
          {"bytes_sent_per_step",
           {{"formula", prediction.formula.formula},
            {"gradients", prediction.bytes_sent(Purpose::kGradient)},
            {"parameters", prediction.bytes_sent(Purpose::kParameter)}}},
          {"ms", times_json(prediction.ms)},
          {"largest_micro_batch", largest_json(row.micro_batch)},
          {"largest_n_layer", largest_json(row.model)}};
}

}  // namespace

std::string plan_text(const Plan& plan, const DeviceModel& device) {
  const RunConfig& config = plan.config;
  return fmt::format(
             "\n{} parameters: n_layer {}, n_embd {}, vocabulary {}; {}; micro-batch {} x {} "
             "tokens, "
             "k = {}\n",
             plan.rows.front().prediction.num_params, config.model.n_layer, config.model.n_embd,
             plan.vocab_size, config.train.precision, config.train.micro_batch_size,
             config.model.block_size, config.train.gradient_accumulation_steps) +
         states_table(plan) + peak_table(plan) + fits_table(plan, device) + step_table(plan);
}

nlohmann::json plan_json(const std::vector<Plan>& plans, const DeviceModel& device) {
  nlohmann::json json = {{"machine",
                          {{"flops_per_s", device.speed.flops_per_s},
                           {"memory_bytes_per_s", device.speed.bytes_per_s},
                           {"memory", device.memory},
                           {"bandwidth_gbps", device.link.bandwidth_gbps},
                           {"latency_us", device.link.latency_us}}},
                         {"models", nlohmann::json::array()}};
  for (const Plan& plan : plans) {
    nlohmann::json rows = nlohmann::json::array();
    for (const PlanRow& row : plan.rows) {
      rows.push_back(row_json(row));
    }
    json["models"].push_back({{"config", to_json(plan.config)},
                              {"vocab_size", plan.vocab_size},
                              {"num_params", plan.rows.front().prediction.num_params},
                              {"rows", rows}});
  }
  return json;
}

std::string map_text(const zero::Layout& layout) {
  constexpr int kShown = 16;
  std::string text = "\n" + layout.to_string();
  const int ranks = layout.options().world_size;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == kShown && ranks > kShown + 1) {
      text += fmt::format("… {} ranks …\n", ranks - kShown - 1);
      rank = ranks - 1;
    }
    int64_t owned = 0;
    std::string ranges;
    for (const zero::Segment& segment : layout.segments(rank)) {
      const int64_t begin = segment.flat_offset - layout.ranges()[segment.parameter].offset;
      ranges += fmt::format("  {}[{}, {})", layout.parameters()[segment.parameter].name, begin,
                            begin + segment.numel);
      owned += segment.numel;
    }
    text += fmt::format("rank {}: {} elements + {} padding:{}\n", rank, owned,
                        layout.partition_numel() - owned, ranges);
  }
  return text;
}

}  // namespace zerolab::app
