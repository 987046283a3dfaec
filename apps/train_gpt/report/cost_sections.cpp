#include <fmt/core.h>

#include <algorithm>

#include "apps/train_gpt/report/log_fields.h"
#include "apps/train_gpt/report/page_sections.h"
#include "framework/memory/ledger.h"

namespace zerolab::app {

using nlohmann::json;

json memory_section(const LoggedRun& run) {
  constexpr size_t kMostRanks = 256;
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

json timelines_section(const LoggedRun& run) {
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
                         {"title", stage_title(at(timeline, "/stage"))},
                         {"samples", samples}});
  }
  return timelines;
}

json communication_section(const LoggedRun& run) {
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

namespace {

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

}  // namespace

json throughput_section(const LoggedRun& run) {
  const double rate = tokens_per_s(run);
  const double peak = 1e12 * number_at(run.config, "/config/log.peak_tflops");
  return {{"tokens_per_s", rate},
          {"flops_per_token", flops_per_token(run)},
          {"mfu", peak > 0.0 ? json(flops_per_token(run) * rate / peak) : json()}};
}

}  // namespace zerolab::app
