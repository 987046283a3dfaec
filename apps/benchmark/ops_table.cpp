#include "apps/benchmark/ops_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/train_gpt/text/text_table.h"

namespace zerolab::bench {
namespace {

std::string name_with_extents(const OpKey& key) {
  std::string text(key.name);
  for (size_t i = 0; i < key.extents.size() && key.extents[i] != 0; ++i) {
    text += fmt::format("{}{}", i == 0 ? " " : "x", key.extents[i]);
  }
  return text;
}

/// GFLOP/s of products, GB/s of what memory limits.
std::string rate(double flops, double bytes, double seconds) {
  return flops > 0.0 ? fmt::format("{:.1f} GFLOP/s", flops / seconds / 1e9)
                     : fmt::format("{:.1f} GB/s", bytes / seconds / 1e9);
}

}  // namespace

OpsTable::OpsTable(const StepMeasurement& step, const MachineLimits& limits)
    : step_seconds_(step.seconds) {
  for (const auto& [key, cost] : step.ops) {
    rows_.push_back({.name = name_with_extents(key),
                     .calls = cost.calls,
                     .seconds = cost.seconds,
                     .flops = cost.flops,
                     .bytes = cost.bytes,
                     .limit_seconds = std::max(cost.flops / limits.peak_flops(),
                                               cost.bytes / limits.bytes_per_s())});
  }
  for (const auto& [key, entry] : step.communication) {
    // Every byte that crosses is read once and written once.
    const auto bytes = static_cast<double>(entry.bytes_sent + entry.bytes_received);
    const std::string name = fmt::format("{} {}", name_of(key.first), name_of(key.second));
    rows_.push_back({.name = name + ": transfer",
                     .calls = entry.calls,
                     .seconds = entry.transfer_ms / 1e3,
                     .bytes = bytes,
                     .limit_seconds = bytes / limits.bytes_per_s()});
    rows_.push_back(
        {.name = name + ": wait", .calls = entry.calls, .seconds = entry.wait_ms / 1e3});
  }
  std::ranges::sort(rows_, std::greater(), &Row::seconds);
  for (const Row& row : rows_) {
    sum_seconds_ += row.seconds;
    limit_seconds_ += row.limit_seconds;
  }
}

void OpsTable::print() const {
  std::vector<app::TableRow> table = {
      {"kernel", "calls", "ms/call", "ms/step", "share", "MB/call", "rate", "limit ms", "of it"}};
  const auto share = [&](double seconds) {
    return fmt::format("{:.1f}%", seconds / step_seconds_ * 100);
  };
  for (const Row& row : rows_) {
    const auto calls = static_cast<double>(row.calls);
    table.push_back(
        {row.name, fmt::format("{}", row.calls), fmt::format("{:.3f}", row.seconds * 1e3 / calls),
         fmt::format("{:.2f}", row.seconds * 1e3), share(row.seconds),
         fmt::format("{:.2f}", row.bytes / calls / 1e6), rate(row.flops, row.bytes, row.seconds),
         fmt::format("{:.2f}", row.limit_seconds * 1e3),
         fmt::format("{:.0f}%", row.limit_seconds / row.seconds * 100)});
  }
  const auto add_total = [&](const char* name, double seconds) {
    table.push_back({name, "", "", fmt::format("{:.2f}", seconds * 1e3), share(seconds)});
  };
  add_total("sum of the limits", limit_seconds_);
  add_total("sum of the kernels", sum_seconds_);
  add_total("step", step_seconds_);
  add_total("no kernel: tape, allocation, engine, idle", step_seconds_ - sum_seconds_);
  fmt::print("{}", app::text_table(table, {app::kLeftColumn}));
}

nlohmann::json OpsTable::to_json() const {
  nlohmann::json result = nlohmann::json::array();
  for (const Row& row : rows_) {
    result.push_back({{"kernel", row.name},
                      {"calls", row.calls},
                      {"ms_per_step", row.seconds * 1e3},
                      {"share", row.seconds / step_seconds_},
                      {"flops", row.flops},
                      {"bytes", row.bytes},
                      {"limit_ms", row.limit_seconds * 1e3}});
  }
  return result;
}

}  // namespace zerolab::bench
