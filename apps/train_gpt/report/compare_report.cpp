#include "apps/train_gpt/report/compare_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "apps/train_gpt/metrics/metrics_records.h"
#include "apps/train_gpt/report/compare_variants.h"
#include "apps/train_gpt/report/losses.h"
#include "apps/train_gpt/setup/modelled_link.h"
#include "apps/train_gpt/text/text_table.h"

namespace zerolab::app {
namespace {

/// The largest `loss_difference`; infinite where one run has more steps.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, loss_difference(a[i], b[i]));
  }
  return largest;
}

CommunicationMean gradients_of(const Compared& run) {
  return run.summary.communication_mean(Purpose::kGradient);
}

CommunicationMean parameters_of(const Compared& run) {
  return run.summary.communication_mean(Purpose::kParameter);
}

std::string_view reduction_of(const Compared& run) {
  return name_of(run.summary.info.plan.reduction);
}

/// Bytes that padding of the flat buffer adds to the sent bytes of one step.
double sent_padding(const Compared& run) {
  const zero::CommunicationBytes& bytes = run.summary.info.communication;
  return static_cast<double>(bytes.gradients + bytes.parameters) - bytes.formula;
}

/// "1.500x"; "-" where there is nothing to compare with.
std::string ratio_text(double value, double first) {
  return first > 0.0 ? fmt::format("{:.3f}x", value / first) : "-";
}

/// A column a run.
class ComparisonTable {
 public:
  explicit ComparisonTable(const std::vector<Compared>& runs) : runs_(runs) {}

  void title(const std::string& text) {
    rows_.push_back({""});
    rows_.push_back({text});
  }
  void row(const std::string& label, const std::function<std::string(const Compared&)>& cell) {
    TableRow& cells = rows_.emplace_back(TableRow{label});
    for (const Compared& run : runs_) {
      cells.push_back(cell(run));
    }
  }
  std::string text() const {
    std::vector<TableColumn> columns = {{.align = Align::kLeft, .least_width = 40}};
    columns.resize(1 + runs_.size(), {.least_width = 16});
    return text_table(rows_, columns);
  }

 private:
  const std::vector<Compared>& runs_;
  std::vector<TableRow> rows_;
};

void memory_rows(ComparisonTable& table, const std::vector<Compared>& runs) {
  table.title(
      "Memory of rank 0 at its peak, bytes (tracked; the formula or the dry run; what is left)");
  for (int i = 0; i < kNumCategories; ++i) {
    const auto category = static_cast<Category>(i);
    const bool used = std::any_of(runs.begin(), runs.end(), [&](const Compared& run) {
      return run.summary.memory[0].peak_of(category) > 0;
    });
    if (!used) {
      continue;
    }
    table.row(std::string(name_of(category)), [&](const Compared& run) {
      return fmt::format("{}", run.summary.memory[0].at_total_peak_of(category));
    });
    // Zero where a run has none: master weights in fp32.
    const auto state_of = [category](const Compared& run) {
      for (const zero::StateBytes& bytes : run.summary.info.state) {
        if (bytes.category == category) {
          return bytes;
        }
      }
      return zero::StateBytes{.category = category};
    };
    if (std::ranges::any_of(runs, [&](const Compared& run) { return state_of(run).bytes > 0; })) {
      table.row("  formula",
                [&](const Compared& run) { return fmt::format("{:.0f}", state_of(run).formula); });
      table.row("  padding", [&](const Compared& run) {
        return fmt::format("{:.0f}", state_of(run).padding());
      });
      table.row("  difference", [&](const Compared& run) {
        return fmt::format("{}", run.summary.memory[0].peak_of(category) - state_of(run).bytes);
      });
    } else {
      table.row("  dry run", [&](const Compared& run) {
        return fmt::format("{}", run.predicted.at_total_peak_of(category));
      });
      table.row("  difference", [&](const Compared& run) {
        return fmt::format("{}", run.summary.memory[0].at_total_peak_of(category) -
                                     run.predicted.at_total_peak_of(category));
      });
    }
  }
  table.row("total", [](const Compared& run) {
    return fmt::format("{}", run.summary.memory[0].total_peak);
  });
  const auto first = static_cast<double>(runs.front().summary.memory[0].total_peak);
  table.row("  ratio to the first", [first](const Compared& run) {
    return ratio_text(static_cast<double>(run.summary.memory[0].total_peak), first);
  });
}

void bytes_rows(ComparisonTable& table, const std::vector<Compared>& runs) {
  table.title("Bytes sent a step and rank (counted where they are copied; mean of the ranks)");
  table.row("gradients", [](const Compared& run) {
    return fmt::format("{:.0f}", gradients_of(run).bytes_sent);
  });
  table.row("parameters", [](const Compared& run) {
    return fmt::format("{:.0f}", parameters_of(run).bytes_sent);
  });
  table.row("  formula, both", [](const Compared& run) {
    return fmt::format("{:.0f}", run.summary.info.communication.formula);
  });
  table.row("  padding",
            [](const Compared& run) { return fmt::format("{:.0f}", sent_padding(run)); });
  table.row("  difference", [](const Compared& run) {
    return fmt::format("{:.0f}", run.summary.bytes_sent_per_step() -
                                     run.summary.info.communication.formula - sent_padding(run));
  });
  const double first = runs.front().summary.bytes_sent_per_step();
  table.row("  ratio to the first", [first](const Compared& run) {
    return ratio_text(run.summary.bytes_sent_per_step(), first);
  });
}

void communication_time_rows(ComparisonTable& table, const std::vector<Compared>& runs,
                             bool modelled) {
  table.title(fmt::format("Time of communication a step, ms ({}without waits; mean of the ranks)",
                          modelled ? "modelled; " : ""));
  table.row("gradients", [](const Compared& run) {
    return fmt::format("{:.2f}", gradients_of(run).transfer_ms);
  });
  const double first = gradients_of(runs.front()).transfer_ms;
  table.row("  ratio to the first", [first](const Compared& run) {
    return ratio_text(gradients_of(run).transfer_ms, first);
  });
  table.row("parameters", [](const Compared& run) {
    return fmt::format("{:.2f}", parameters_of(run).transfer_ms);
  });
}

void time_rows(ComparisonTable& table, bool modelled) {
  table.title(fmt::format("Time a step, ms (rank 0, mean; tokens/s: median{})",
                          modelled ? "; communication modelled" : ""));
  const auto time = [&table](const char* label, double StepTimes::*member) {
    table.row(label, [member](const Compared& run) {
      return fmt::format("{:.2f}", run.summary.ms.*member);
    });
  };
  time("forward", &StepTimes::forward);
  time("backward", &StepTimes::backward);
  time("exposed communication", &StepTimes::comm_exposed);
  time("optimizer", &StepTimes::optimizer);
  time("step", &StepTimes::step);
  table.row("hidden communication", [](const Compared& run) {
    return fmt::format("{:.2f}", run.summary.ms.comm_hidden());
  });
  table.row("tokens/s",
            [](const Compared& run) { return fmt::format("{:.0f}", run.summary.tokens_per_s); });
}

void loss_rows(ComparisonTable& table, const std::vector<Compared>& runs) {
  table.title("Result");
  table.row("final loss",
            [](const Compared& run) { return fmt::format("{:.6f}", run.summary.losses.back()); });
  table.row("validation loss", [](const Compared& run) {
    return run.summary.evaluation.has_value() ? fmt::format("{:.6f}", run.summary.evaluation->loss)
                                              : "-";
  });
  table.row("losses against the first", [&](const Compared& run) -> std::string {
    const double difference = largest_difference(run.summary.losses, runs.front().summary.losses);
    return difference == 0.0 ? "same bits" : fmt::format("within {:.1e}", difference);
  });
}

}  // namespace

std::string comparison_table(const RunConfig& config, const std::vector<Compared>& runs) {
  const bool modelled = !modelled_link_json(config.comm).is_null();
  ComparisonTable table(runs);
  table.row("", [](const Compared& run) {
    return std::string(zero::name_of_stage(run.summary.info.plan.stage));
  });
  table.row("", [](const Compared& run) { return std::string(reduction_of(run)); });
  table.row("", [](const Compared& run) {
    return std::string(zerolab::name_of(run.summary.info.plan.parameter_dtype));
  });
  memory_rows(table, runs);
  bytes_rows(table, runs);
  communication_time_rows(table, runs, modelled);
  time_rows(table, modelled);
  loss_rows(table, runs);
  return table.text();
}

std::string reduction_lesson(const std::vector<Compared>& runs) {
  std::string lines;
  for (const Compared& reduce : runs) {
    for (const Compared& scatter : runs) {
      const zero::StagePlan& a = reduce.summary.info.plan;
      const zero::StagePlan& b = scatter.summary.info.plan;
      if (a.stage == b.stage && a.reduction == zero::Reduction::kReduceToOwner &&
          b.reduction == zero::Reduction::kReduceScatter) {
        lines += fmt::format(
            "  {}: {:.0f} bytes in {:.2f} ms; reduce-scatter {:.0f} bytes in {:.2f} ms\n",
            zero::name_of_stage(a.stage), gradients_of(reduce).bytes_sent,
            gradients_of(reduce).transfer_ms, gradients_of(scatter).bytes_sent,
            gradients_of(scatter).transfer_ms);
      }
    }
  }
  const size_t ranks = runs.front().summary.memory.size();
  if (lines.empty() || ranks == 1) {
    return "";
  }
  return fmt::format(
      "\nWhy reducing to each owner takes longer on a link than a reduce-scatter of the same "
      "bytes\n"
      "{}"
      "  A reduce is a chain of ranks that ends at one owner. All of a slice crosses each of its "
      "{} "
      "links, the link from the\n"
      "  owner onwards is idle, and the next slice's reduce begins when this one is through. A "
      "reduce-scatter keeps all {} links\n"
      "  busy with a part each. Both send the same bytes, the latter in {}/{} of the time.\n",
      lines, ranks - 1, ranks, ranks - 1, ranks);
}

nlohmann::json comparison_json(const RunConfig& config, const std::vector<Compared>& runs) {
  nlohmann::json json = {{"config", to_json(config)},
                         {"modelled_link", modelled_link_json(config.comm)},
                         {"runs", nlohmann::json::array()}};
  const auto mean = [](const CommunicationMean& mean) {
    return nlohmann::json{{"bytes_sent", mean.bytes_sent},
                          {"wait_ms", mean.wait_ms},
                          {"transfer_ms", mean.transfer_ms}};
  };
  for (const Compared& run : runs) {
    const RunSummary& summary = run.summary;
    nlohmann::json entry = summary_record(summary);
    entry["title"] = zero::name_of_stage(summary.info.plan.stage);
    entry["reduction"] = reduction_of(run);
    entry["layout"] = layout_record(summary.info);
    entry["losses"] = summary.losses;
    entry["largest_loss_difference"] =
        largest_difference(summary.losses, runs.front().summary.losses);
    entry["same_bits"] = entry["largest_loss_difference"] == 0.0;
    entry["comm_per_step"] = {{"gradient", mean(gradients_of(run))},
                              {"parameter", mean(parameters_of(run))}};
    nlohmann::json predicted;
    for (int i = 0; i < kNumCategories; ++i) {
      predicted[name_of(static_cast<Category>(i))] = run.predicted.at_total_peak[i];
    }
    entry["predicted_memory"] = predicted;
    json["runs"].push_back(entry);
  }
  return json;
}

}  // namespace zerolab::app
