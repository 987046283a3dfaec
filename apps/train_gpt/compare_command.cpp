#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "apps/train_gpt/commands.h"
#include "apps/train_gpt/metrics_records.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

/// One stage's run and what was predicted for it.
struct Compared {
  RunSummary summary;
  MemoryLedger::Snapshot predicted;  ///< rank 0's, by the dry run
};

std::string stage_title(const RunSummary& summary) {
  const zero::EngineOptions& options = summary.info.options;
  return std::string(zero::name_of_stage(options.stage)) +
         (options.stage > 0 && !options.reduce_scatter ? " (all-reduce)" : "");
}

/// The largest |a - b| of the runs' losses; 0 exactly when all are the same bits.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::bit_cast<uint64_t>(a[i]) != std::bit_cast<uint64_t>(b[i])) {
      largest =
          std::max({largest, std::abs(a[i] - b[i]), std::numeric_limits<double>::denorm_min()});
    }
  }
  return largest;
}

/// Bytes that padding of the flat buffer adds to the sent bytes of one step.
double sent_padding(const RunSummary& summary) {
  return static_cast<double>(summary.info.communication.gradients +
                             summary.info.communication.parameters) -
         summary.info.communication.formula;
}

class Table {
 public:
  explicit Table(const std::vector<Compared>& runs) : runs_(runs) {}

  void title(const std::string& text) { text_ += fmt::format("\n{}\n", text); }
  void row(const std::string& label, const std::function<std::string(const Compared&)>& cell) {
    text_ += fmt::format("  {:<40}", label);
    for (const Compared& run : runs_) {
      text_ += fmt::format("{:>18}", cell(run));
    }
    text_ += "\n";
  }
  const std::string& text() const { return text_; }

 private:
  const std::vector<Compared>& runs_;
  std::string text_;
};

void memory_rows(Table& table, const std::vector<Compared>& runs) {
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
    const auto state_of = [category](const Compared& run) -> const zero::StateBytes* {
      for (const zero::StateBytes& bytes : run.summary.info.state) {
        if (bytes.category == category) {
          return &bytes;
        }
      }
      return nullptr;
    };
    if (state_of(runs.front()) != nullptr) {
      table.row("  formula",
                [&](const Compared& run) { return fmt::format("{:.0f}", state_of(run)->formula); });
      table.row("  padding", [&](const Compared& run) {
        return fmt::format("{:.0f}", state_of(run)->padding());
      });
      table.row("  difference", [&](const Compared& run) {
        return fmt::format("{}", run.summary.memory[0].peak_of(category) - state_of(run)->bytes);
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
  table.row("  ratio to the first", [&](const Compared& run) {
    return fmt::format("{:.3f}x",
                       static_cast<double>(run.summary.memory[0].total_peak) /
                           static_cast<double>(runs.front().summary.memory[0].total_peak));
  });
}

void communication_rows(Table& table, const std::vector<Compared>& runs) {
  table.title("Bytes that rank 0 sends a step (counted where they are copied)");
  const auto per_step = [](const RunSummary& summary, Purpose purpose) {
    return static_cast<double>(summary.bytes_sent(purpose)) / static_cast<double>(summary.steps);
  };
  table.row("gradients", [&](const Compared& run) {
    return fmt::format("{:.0f}", per_step(run.summary, Purpose::kGradient));
  });
  table.row("parameters", [&](const Compared& run) {
    return fmt::format("{:.0f}", per_step(run.summary, Purpose::kParameter));
  });
  table.row("  formula, both", [](const Compared& run) {
    return fmt::format("{:.0f}", run.summary.info.communication.formula);
  });
  table.row("  padding",
            [](const Compared& run) { return fmt::format("{:.0f}", sent_padding(run.summary)); });
  table.row("  difference", [](const Compared& run) {
    return fmt::format("{:.0f}", run.summary.bytes_sent_per_step() -
                                     run.summary.info.communication.formula -
                                     sent_padding(run.summary));
  });
  const double first = runs.front().summary.bytes_sent_per_step();
  table.row("  ratio to the first", [first](const Compared& run) {
    return first == 0.0 ? std::string("-")
                        : fmt::format("{:.3f}x", run.summary.bytes_sent_per_step() / first);
  });
}

void time_rows(Table& table) {
  table.title("Time a step, ms (rank 0, mean; tokens/s: median)");
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

void loss_rows(Table& table, const std::vector<Compared>& runs) {
  table.title("Result");
  table.row("final loss",
            [](const Compared& run) { return fmt::format("{:.6f}", run.summary.losses.back()); });
  table.row("validation loss", [](const Compared& run) {
    return run.summary.evaluation.has_value() ? fmt::format("{:.6f}", run.summary.evaluation->loss)
                                              : "-";
  });
  table.row("losses against the first", [&](const Compared& run) -> std::string {
    const double difference = largest_difference(run.summary.losses, runs.front().summary.losses);
    return difference == 0.0 ? "same bits" : fmt::format("differ by {:.1e}", difference);
  });
}

nlohmann::json to_json(const RunConfig& config, const std::vector<Compared>& runs) {
  nlohmann::json json = {{"config", app::to_json(config)}, {"runs", nlohmann::json::array()}};
  for (const Compared& run : runs) {
    nlohmann::json entry = summary_record(run.summary);
    entry["title"] = stage_title(run.summary);
    entry["layout"] = layout_record(run.summary.info);
    entry["losses"] = run.summary.losses;
    entry["largest_loss_difference"] =
        largest_difference(run.summary.losses, runs.front().summary.losses);
    entry["same_bits"] = entry["largest_loss_difference"] == 0.0;
    nlohmann::json predicted;
    for (int i = 0; i < kNumCategories; ++i) {
      predicted[name_of(static_cast<Category>(i))] = run.predicted.at_total_peak[i];
    }
    entry["predicted_memory"] = predicted;
    json["runs"].push_back(entry);
  }
  return json;
}

}  // namespace

int compare_command(const RunConfig& config, const std::vector<int>& stages,
                    const std::atomic<bool>& stop) {
  for (const int stage : stages) {
    if (std::count(stages.begin(), stages.end(), stage) > 1) {
      throw ConfigError("compare", fmt::format("--stages names stage {} twice; expected each once: "
                                               "both runs would write the same log",
                                               stage));
    }
  }
  const TrainingData data = load_training_data(config);
  std::vector<RunConfig> configs;
  std::vector<MemoryLedger::Snapshot> predicted;
  for (const int stage : stages) {
    RunConfig one = config;
    one.zero.stage = stage;
    one.run.out_dir = std::filesystem::path(config.run.out_dir) / config.run.name;
    one.run.name = fmt::format("stage-{}", stage);
    predicted.push_back(require_fits(one, data.vocab_size));
    configs.push_back(std::move(one));
  }
  std::vector<Compared> runs;
  for (size_t i = 0; i < configs.size(); ++i) {
    runs.push_back({run_logged(configs[i], data, stop), predicted[i]});
    if (runs.back().summary.stopped) {
      fmt::print("stopped on request: no comparison\n");
      return 0;
    }
  }

  Table table(runs);
  table.row("", [](const Compared& run) { return stage_title(run.summary); });
  memory_rows(table, runs);
  communication_rows(table, runs);
  time_rows(table);
  loss_rows(table, runs);
  const RunInfo& info = runs.front().summary.info;
  fmt::print("\n{} parameters, {} ranks, {} micro-batches of {} x {} tokens a step, {} steps\n{}",
             info.num_params, config.launch.ranks, config.train.gradient_accumulation_steps,
             config.train.micro_batch_size, config.model.block_size, config.run.steps,
             table.text());

  const std::filesystem::path path =
      std::filesystem::path(config.run.out_dir) / config.run.name / "compare.json";
  std::ofstream out(path);
  out << to_json(config, runs).dump(1) << "\n";
  out.close();
  require(out.good(), "compare", "cannot write {}; is the disk full?", path.string());
  fmt::print("\nthe same as JSON: {}\n", path.string());
  return 0;
}

}  // namespace zerolab::app
