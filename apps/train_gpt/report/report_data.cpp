#include "apps/train_gpt/report/report_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "apps/train_gpt/metrics/version.h"
#include "apps/train_gpt/report/compare_report.h"
#include "framework/memory/ledger.h"
#include "zero/options.h"

namespace zerolab::app {
namespace {

using nlohmann::json;

constexpr size_t kDrawnSteps = 1000;
constexpr size_t kLongestName = 120;
constexpr size_t kMostRanks = 256;
constexpr size_t kMostListed = 2000;  ///< parameters and slices, as the log's

/// What `pointer` ("/ms/forward") leads to; null where it leads nowhere.
json at(const json& record, const std::string& pointer) {
  const json::json_pointer path(pointer);
  return record.contains(path) ? record.at(path) : json();
}

/// The first `most` of a list; none where there is no list. A foreign log may hold any number.
json list_at(const json& record, const std::string& pointer, size_t most) {
  json list = at(record, pointer);
  if (!list.is_array()) {
    return json::array();
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(std::min(most, list.size())), list.end());
  return list;
}

double number_at(const json& record, const std::string& pointer) {
  const json value = at(record, pointer);
  return value.is_number() ? value.get<double>() : 0.0;
}

/// As a whole number; what is far beyond any count of ours is cut.
int64_t whole_at(const json& record, const std::string& pointer) {
  return static_cast<int64_t>(std::clamp(number_at(record, pointer), -1e15, 1e15));
}

std::string text_of(const json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  return text.size() <= kLongestName ? text : text.substr(0, kLongestName) + "…";
}

json setting(const LoggedRun& run, const std::string& key) {
  return at(run.config, "/config/" + key);
}

int64_t ranks_of(const LoggedRun& run) {
  return std::max<int64_t>(1, whole_at(run.config, "/config/launch.ranks"));
}

std::string stage_name(const json& stage) {
  const double number = stage.is_number() ? stage.get<double>() : -1.0;
  return number == 0.0 || number == 1.0 || number == 2.0
             ? std::string(zero::name_of_stage(static_cast<int>(number)))
             : "unknown stage";
}

/// What a run did a step: means over the whole run, or its last step's where it has not ended.
const json& totals_of(const LoggedRun& run) {
  return run.summary.is_object() ? run.summary : run.last_step;
}

/// "ZeRO-2"; with the folder where several runs have that stage, and a number where even that is
/// the same.
std::vector<std::string> labels_of(const std::vector<LoggedRun>& runs) {
  const auto count = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::count(names, name);
  };
  std::vector<std::string> stages;
  for (const LoggedRun& run : runs) {
    stages.push_back(stage_name(setting(run, "zero.stage")));
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
                    number_at(change, "/step"), stage_name(at(change, "/from")),
                    stage_name(at(change, "/to"))));
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

/// Bytes of every rank at its peak, and the state's formula against the rank that holds most.
json memory_of(const LoggedRun& run) {
  json ranks = json::array();
  size_t highest = 0;
  const json memory = list_at(totals_of(run), "/memory", kMostRanks);
  for (const json& rank : memory) {
    json bytes = json::object();
    for (const auto& [category, held] : rank.items()) {
      if (category != "total" && number_at(held, "/at_total_peak") > 0) {
        bytes[category] = number_at(held, "/at_total_peak");
      }
    }
    ranks.push_back(
        {{"rank", ranks.size()}, {"bytes", bytes}, {"total", number_at(rank, "/total/peak")}});
    if (ranks.back()["total"] > ranks[highest]["total"]) {
      highest = ranks.size() - 1;
    }
  }
  json state = json::array();
  const json formulas = at(run.layout, "/state_bytes");
  const json held = at(memory, fmt::format("/{}", highest));
  for (const auto& [category, formula] : formulas.items()) {
    const double tracked = held.contains(category) ? number_at(held[category], "/peak") : 0.0;
    state.push_back({{"category", category},
                     {"formula", number_at(formula, "/formula")},
                     {"padding", number_at(formula, "/padding")},
                     {"tracked", tracked},
                     {"difference",
                      run.stages.empty() ? json(tracked - number_at(formula, "/bytes")) : json()}});
  }
  return {{"ranks", ranks}, {"highest", highest}, {"state", state}};
}

/// Sent a step and rank: means over ranks and steps.
json communication_of(const LoggedRun& run) {
  const double steps = run.summary.is_object() ? number_at(run.summary, "/steps") : 1.0;
  const double count = std::max(steps, 1.0) * static_cast<double>(ranks_of(run));
  json ops = json::array();
  double sent = 0.0;
  const json entries = at(totals_of(run), "/comm/all_ranks");
  for (const auto& [name, entry] : entries.items()) {
    const double bytes = number_at(entry, "/bytes_sent") / count;
    ops.push_back({{"op", name},
                   {"calls", number_at(entry, "/calls") / count},
                   {"bytes", bytes},
                   {"wait_ms", number_at(entry, "/wait_ms") / count},
                   {"transfer_ms", number_at(entry, "/transfer_ms") / count}});
    sent += name.ends_with(" gradient") || name.ends_with(" parameter") ? bytes : 0.0;
  }
  const double formula = number_at(run.layout, "/bytes_sent_per_step/formula");
  const double expected = number_at(run.layout, "/bytes_sent_per_step/gradients") +
                          number_at(run.layout, "/bytes_sent_per_step/parameters");
  // Of a single step a gather may be missing, which ended in the next; a skipped step has none.
  const bool comparable = run.summary.is_object() && run.stages.empty() && run.skipped_steps == 0;
  return {{"ops", ops},         {"sent", sent},
          {"formula", formula}, {"padding", expected - formula},
          {"ratio", nullptr},   {"difference", comparable ? json(sent - expected) : json()}};
}

/// Median of the steps after the first, which also warms up; of the first where it is alone.
double tokens_per_s(const LoggedRun& run) {
  std::vector<double> rates;
  for (const LoggedStep& step : run.steps) {
    if (run.steps.size() == 1 || &step != &run.steps.front()) {
      rates.push_back(step.tokens_per_s);
    }
  }
  if (rates.empty()) {
    return 0.0;
  }
  std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
  return rates[rates.size() / 2];
}

/// Forward and backward of a token: two operations a parameter and pass, backward is two passes;
/// and attention's products.
double flops_per_token(const LoggedRun& run) {
  const auto model = [&](const char* key) {
    return number_at(run.config, std::string("/config/model.") + key);
  };
  return 6.0 * number_at(run.layout, "/num_params") +
         12.0 * model("n_layer") * model("n_embd") * model("block_size");
}

json throughput_of(const LoggedRun& run) {
  const double rate = tokens_per_s(run);
  const double peak = 1e12 * number_at(run.config, "/config/log.peak_tflops");
  return {{"tokens_per_s", rate},
          {"flops_per_token", flops_per_token(run)},
          {"mfu", peak > 0.0 ? json(flops_per_token(run) * rate / peak) : json()}};
}

int64_t num_steps(const LoggedRun& run) { return run.dropped_steps + std::ssize(run.steps); }

/// The losses of the steps that both runs have.
json verdict(const LoggedRun& run, const LoggedRun& first) {
  double largest = 0.0;
  int64_t largest_at = 0;
  int64_t compared = 0;
  auto other = first.steps.begin();
  for (const LoggedStep& step : run.steps) {
    while (other != first.steps.end() && other->step < step.step) {
      ++other;
    }
    if (other != first.steps.end() && other->step == step.step) {
      ++compared;
      const double difference = loss_difference(step.loss, other->loss);
      if (difference > largest) {
        largest = difference;
        largest_at = step.step;
      }
    }
  }
  return {{"compared_steps", &run == &first ? num_steps(run) : compared},
          {"same_bits", largest == 0.0},
          {"largest_difference", largest},
          {"at_step", largest_at}};
}

json loss_of(const LoggedRun& run, const LoggedRun& first) {
  const auto point = [](const LoggedStep& step) { return json{step.step, step.loss}; };
  json points = json::array();
  for (const LoggedStep& step : thinned_out(run.steps, kDrawnSteps)) {
    points.push_back(point(step));
  }
  json loss = {{"steps", num_steps(run)},
               {"points", points},
               {"evaluations", json::array()},
               {"against_first", verdict(run, first)}};
  if (!run.steps.empty()) {
    loss["first"] = point(run.steps.front());
    loss["last"] = point(run.steps.back());
    loss["lowest"] = point(*std::ranges::min_element(run.steps, [](const auto& a, const auto& b) {
      return !std::isnan(a.loss) && !(a.loss >= b.loss);
    }));
  }
  for (const LoggedStep& one : thinned_out(run.evaluations, kDrawnSteps)) {
    loss["evaluations"].push_back(point(one));
  }
  return loss;
}

/// Which range of each parameter which rank owns: parameters cut by slices.
json layout_of(const LoggedRun& run) {
  struct Run {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t owner = 0;
  };
  std::map<int64_t, std::vector<Run>> slices;  // by bucket
  const json logged_slices = list_at(run.map, "/slices", kMostListed);
  const auto range_of = [&](const json& record) {
    const int64_t begin = whole_at(record, "/offset");
    return Run{.begin = begin,
               .end = begin + whole_at(record, "/numel"),
               .owner = whole_at(record, "/owner")};
  };
  for (const json& slice : logged_slices) {
    slices[whole_at(slice, "/bucket")].push_back(range_of(slice));
  }
  json buckets = json::array();
  std::map<int64_t, size_t> index_of;
  for (const auto& [bucket, owned] : slices) {
    json entry = {{"bucket", bucket}, {"slices", json::array()}, {"parameters", json::array()}};
    for (const Run& slice : owned) {
      entry["slices"].push_back({slice.owner, slice.begin, slice.end - slice.begin});
    }
    index_of[bucket] = buckets.size();
    buckets.push_back(entry);
  }
  const json parameters = list_at(run.map, "/parameters", kMostListed);
  for (const json& parameter : parameters) {
    const auto found = index_of.find(whole_at(parameter, "/bucket"));
    if (found == index_of.end()) {
      continue;
    }
    const Run place = range_of(parameter);
    json owned = json::array();
    for (const Run& slice : slices[found->first]) {
      const int64_t begin = std::max(place.begin, slice.begin);
      const int64_t end = std::min(place.end, slice.end);
      if (begin < end) {
        owned.push_back({slice.owner, begin - place.begin, end - begin});
      }
    }
    buckets[found->second]["parameters"].push_back({{"name", text_of(at(parameter, "/name"))},
                                                    {"offset", place.begin},
                                                    {"numel", place.end - place.begin},
                                                    {"owned", owned}});
  }
  return {{"hash", text_of(at(run.layout, "/hash"))},
          {"num_params", at(run.layout, "/num_params")},
          {"padding", at(run.layout, "/padding")},
          {"num_buckets", at(run.layout, "/buckets")},
          {"num_parameters", at(run.map, "/num_parameters")},
          {"num_slices", at(run.map, "/num_slices")},
          {"listed_parameters", parameters.size()},
          {"listed_slices", logged_slices.size()},
          {"buckets", buckets}};
}

json timelines_of(const LoggedRun& run) {
  json timelines = json::array();
  for (const json& timeline : run.timelines) {
    json samples = json::array();
    const json logged = list_at(timeline, "/samples", MemoryLedger::kMaxSamples);
    for (const json& sample : logged) {
      samples.push_back({{"phase", text_of(at(sample, "/phase"))},
                         {"ms", number_at(sample, "/ms")},
                         {"bytes", at(sample, "/bytes")}});
    }
    timelines.push_back({{"step", at(timeline, "/step")},
                         {"title", stage_name(at(timeline, "/stage"))},
                         {"samples", samples}});
  }
  return timelines;
}

json run_data(const LoggedRun& run, const std::string& label, const LoggedRun& first) {
  return {{"label", label},
          {"name", text_of(setting(run, "run.name"))},
          {"source", run.source},
          {"stage", setting(run, "zero.stage")},
          {"ranks", ranks_of(run)},
          {"notes", notes_of(run)},
          {"memory", memory_of(run)},
          {"timelines", timelines_of(run)},
          {"communication", communication_of(run)},
          {"ms", at(totals_of(run), "/ms")},
          {"throughput", throughput_of(run)},
          {"loss", loss_of(run, first)},
          {"layout", layout_of(run)},
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

std::vector<LoggedStep> thinned_out(const std::vector<LoggedStep>& steps, size_t most) {
  if (steps.size() <= most) {
    return steps;
  }
  const auto below = [](const LoggedStep& a, const LoggedStep& b) { return a.loss < b.loss; };
  const auto first = static_cast<double>(steps.front().step);
  const double range = static_cast<double>(steps.back().step) - first;
  std::vector<LoggedStep> kept = {steps.front()};
  const size_t stretches = most / 2;
  auto end = steps.begin();
  for (size_t i = 1; i <= stretches; ++i) {
    const double last = first + range * static_cast<double>(i) / static_cast<double>(stretches);
    const auto begin = end;
    end = std::partition_point(begin, steps.end(), [&](const LoggedStep& step) {
      return static_cast<double>(step.step) <= last;
    });
    if (begin == end) {
      continue;
    }
    const auto [lowest, highest] = std::minmax_element(begin, end, below);
    for (const auto& step : {std::min(lowest, highest), std::max(lowest, highest)}) {
      if (step->step > kept.back().step) {
        kept.push_back(*step);
      }
    }
  }
  if (steps.back().step > kept.back().step) {
    kept.push_back(steps.back());
  }
  return kept;
}

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
