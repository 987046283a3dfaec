#include "apps/train_gpt/config/config_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace zerolab::app {
namespace {

/// Levenshtein's distance.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

bool Range::contains(double value) const {
  // Written so that NaN is in no range.
  return std::isfinite(value) && (open_min ? value > min : value >= min) &&
         (open_max ? value < max : value <= max);
}

std::string Range::text() const {
  std::vector<std::string> bounds;
  if (std::isfinite(min)) {
    bounds.push_back(fmt::format("{} {}", open_min ? ">" : ">=", min));
  }
  if (std::isfinite(max)) {
    bounds.push_back(fmt::format("{} {}", open_max ? "<" : "<=", max));
  }
  return fmt::format("{}", fmt::join(bounds, " and "));
}

std::string Entry::name() const { return fmt::format("{}.{}", section, key); }

std::string Entry::expected() const {
  struct TypeName {
    const Entry& entry;
    std::string operator()(bool*) const { return "true or false"; }
    std::string operator()(int64_t*) const {
      return entry.unit == Unit::kBytes ? "bytes or text such as \"4GiB\"," : "an integer";
    }
    std::string operator()(double*) const { return "a number"; }
    std::string operator()(std::string*) const {
      return entry.choices.empty() ? "text"
                                   : fmt::format("\"{}\"", fmt::join(entry.choices, "\" or \""));
    }
    std::string operator()(std::array<double, 2>*) const { return "an array of two numbers"; }
    std::string operator()(std::vector<std::string>*) const { return "text or an array of texts"; }
    std::string operator()(std::vector<StageSwitch>*) const {
      return "an array of tables {step, stage}";
    }
  };
  RunConfig config;
  std::string text = std::visit(TypeName{*this}, field(config));
  if (const std::string bounds = range.text(); !bounds.empty()) {
    text += " " + bounds;
  }
  return zero_is_auto ? text + ", or \"auto\"" : text;
}

nlohmann::json Entry::value(const RunConfig& config) const {
  nlohmann::json value = stored(config);
  return zero_is_auto && value == 0 ? nlohmann::json("auto") : value;
}

bool is_section(std::string_view name) {
  return std::ranges::any_of(config_table(),
                             [&](const Entry& entry) { return entry.section == name; });
}

const Entry* find_entry(std::string_view section, std::string_view key) {
  const auto found = std::ranges::find_if(config_table(), [&](const Entry& entry) {
    return entry.section == section && entry.key == key;
  });
  return found == config_table().end() ? nullptr : &*found;
}

const Entry& nearest_entry(std::string_view section, std::string_view key) {
  return *std::ranges::min_element(config_table(), {}, [&](const Entry& entry) {
    return edit_distance(key, entry.key) + (section == entry.section ? 0 : 1);
  });
}

std::string_view nearest_section(std::string_view name) {
  return std::ranges::min_element(
             config_table(), {},
             [&](const Entry& entry) { return edit_distance(name, entry.section); })
      ->section;
}

}  // namespace zerolab::app
