#include "apps/train_gpt/report/report_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "apps/train_gpt/metrics/version.h"
#include "apps/train_gpt/report/log_fields.h"
#include "apps/train_gpt/report/page_sections.h"

namespace zerolab::app {
namespace {

using nlohmann::json;

/// "ZeRO-2"; with the folder where several runs have that stage, and a number where even that is
/// the same.
std::vector<std::string> labels_of(const std::vector<LoggedRun>& runs) {
  const auto count = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::count(names, name);
  };
  std::vector<std::string> stages;
  for (const LoggedRun& run : runs) {
    stages.push_back(stage_title(setting(run, "zero.stage")));
  }
  std::vector<std::string> labels;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::filesystem::path folder =
        std::filesystem::path(runs[i].source).parent_path().filename();
    std::string label = count(stages, stages[i]) == 1
                            ? stages[i]
                            : text_of(fmt::format("{} ({})", stages[i], folder.string()));
    if (const auto same = count(labels, label); same > 0) {
      label += fmt::format(" #{}", same + 1);
    }
    labels.push_back(label);
  }
  return labels;
}

json notes_of(const LoggedRun& run) {
  json notes = json::array();
  if (run.unreadable_lines > 0) {
    notes.push_back(
        fmt::format("{} lines of the log are no record and were left out, the first is "
                    "line {}.",
                    run.unreadable_lines, run.first_unreadable_line));
  }
  if (run.summary.is_null()) {
    notes.push_back(
        "The run has not ended, or ended with an error: memory, communication and "
        "times are of its last whole step.");
  }
  if (run.skipped_steps > 0) {
    notes.push_back(
        fmt::format("{} steps were skipped: their gradients were not finite.", run.skipped_steps));
  }
  for (const json& change : run.stages) {
    notes.push_back(
        fmt::format("Before step {:.0f} the stage changed from {} to {}; the formulas "
                    "are those of the stage that the run began with.",
                    number_at(change, "/step"), stage_title(at(change, "/from")),
                    stage_title(at(change, "/to"))));
  }
  if (at(run.config, "/modelled_link").is_object()) {
    notes.push_back(
        fmt::format("Times of communication are those of a modelled link: {} Gbit/s, "
                    "latency {} us.",
                    number_at(run.config, "/modelled_link/bandwidth_gbps"),
                    number_at(run.config, "/modelled_link/latency_us")));
  }
  return notes;
}

json run_data(const LoggedRun& run, const std::string& label, const LoggedRun& first) {
  return {{"label", label},
          {"name", text_of(setting(run, "run.name"))},
          {"source", run.source},
          {"stage", setting(run, "zero.stage")},
          {"ranks", ranks_of(run)},
          {"notes", notes_of(run)},
          {"memory", memory_section(run)},
          {"timelines", timelines_section(run)},
          {"communication", communication_section(run)},
          {"ms", at(totals_of(run), "/ms")},
          {"throughput", throughput_section(run)},
          {"loss", loss_section(run, first)},
          {"layout", layout_section(run)},
          {"version", text_of(at(run.config, "/version"))},
          {"commit", text_of(at(run.config, "/commit"))},
          {"machine", at(run.config, "/machine")},
          {"config", at(run.config, "/config")}};
}

/// Bytes sent over those of the first DDP run of the same model and ranks.
void add_ratios(json& runs) {
  for (json& run : runs) {
    for (const json& other : runs) {
      const double reference = other["communication"]["sent"];
      if (other["stage"] == 0 && other["ranks"] == run["ranks"] && reference > 0.0 &&
          other["layout"]["num_params"] == run["layout"]["num_params"]) {
        run["communication"]["ratio"] = run["communication"]["sent"].get<double>() / reference;
        break;
      }
    }
  }
}

}  // namespace

json report_data(const std::vector<LoggedRun>& runs) {
  const std::vector<std::string> labels = labels_of(runs);
  json data = json::array();
  for (size_t i = 0; i < runs.size(); ++i) {
    data.push_back(run_data(runs[i], labels[i], runs.front()));
  }
  add_ratios(data);
  return {{"version", kVersion}, {"runs", data}};
}

}  // namespace zerolab::app
