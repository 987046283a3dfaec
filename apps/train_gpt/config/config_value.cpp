#include "apps/train_gpt/config/config_value.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "apps/train_gpt/config/refuse.h"
#include "zero/stage.h"

namespace zerolab::app {
namespace {

std::optional<int64_t> to_integer(double value) {
  constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
  if (std::trunc(value) != value || std::abs(value) >= kTooLarge) {
    return std::nullopt;
  }
  return static_cast<int64_t>(value);
}

/// "4GiB", "1.5 GB", "4096": powers of 1024 with an i, of 1000 without.
std::optional<int64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  std::string_view unit = text.substr(end - text.data());
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},    {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  for (const auto& [name, bytes] : kUnits) {
    if (unit == name) {
      return to_integer(std::round(number * bytes));
    }
  }
  return std::nullopt;
}

/// An integer, or a float that is one.
std::optional<int64_t> read_integer(const toml::node& node) {
  if (const auto number = node.value_exact<double>()) {
    return to_integer(*number);
  }
  return node.value_exact<int64_t>();
}

std::optional<int64_t> read_integer(const Entry& entry, const toml::node& node) {
  if (const auto text = node.value_exact<std::string_view>()) {
    if (entry.zero_is_auto && *text == "auto") {
      return 0;
    }
    return entry.unit == Unit::kBytes ? parse_bytes(*text) : std::nullopt;
  }
  return read_integer(node);
}

std::optional<double> read_number(const Entry& entry, const toml::node& node) {
  if (entry.zero_is_auto && node.value_exact<std::string_view>() == "auto") {
    return 0.0;
  }
  if (const auto integer = node.value_exact<int64_t>()) {
    return static_cast<double>(*integer);
  }
  return node.value_exact<double>();
}

/// `key` of an entry of [[zero.schedule]].
int64_t read_schedule_key(const toml::table& table, std::string_view key, const Range& range,
                          const Origin& origin) {
  const toml::node* node = table.get(key);
  if (node == nullptr) {
    refuse(origin.at(table), "zero.schedule.{} is missing; expected an integer {}", key,
           range.text());
  }
  const auto value = read_integer(*node);
  if (!value || !range.contains(static_cast<double>(*value))) {
    refuse(origin.at(*node), "zero.schedule.{}; got {}, expected an integer {}", key,
           text_of(*node), range.text());
  }
  return *value;
}

StageSwitch read_stage_switch(const toml::node& node, const Origin& origin) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    refuse(origin.at(node), "zero.schedule; got {}, expected a table {{step, stage}}",
           text_of(node));
  }
  for (const auto& [key, value] : *table) {
    if (key.str() != "step" && key.str() != "stage") {
      refuse(origin.at(value), "unknown key; got zero.schedule.{}, expected step or stage",
             key.str());
    }
  }
  return {.step = read_schedule_key(*table, "step", {.min = 1}, origin),
          .stage = read_schedule_key(*table, "stage", {.min = 0, .max = zero::kLastStage}, origin)};
}

/// Stores a TOML value in a field of the same type; false if type, range or choice is wrong.
struct Store {
  const Entry& entry;
  const toml::node& node;
  const Origin& origin;

  bool operator()(bool* target) const { return assign(target, node.value_exact<bool>()); }

  bool operator()(int64_t* target) const {
    const auto value = read_integer(entry, node);
    return value && entry.range.contains(static_cast<double>(*value)) && assign(target, value);
  }

  bool operator()(double* target) const {
    const auto value = read_number(entry, node);
    return value && entry.range.contains(*value) && assign(target, value);
  }

  bool operator()(std::string* target) const {
    const auto value = node.value_exact<std::string>();
    const bool allowed = value && (entry.choices.empty() ||
                                   std::ranges::find(entry.choices, *value) != entry.choices.end());
    return allowed && assign(target, value);
  }

  bool operator()(std::array<double, 2>* target) const {
    const toml::array* array = node.as_array();
    return array != nullptr && array->size() == 2 &&
           Store{entry, (*array)[0], origin}(&(*target)[0]) &&
           Store{entry, (*array)[1], origin}(&(*target)[1]);
  }

  bool operator()(std::vector<std::string>* target) const {
    target->clear();
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return Store{entry, node, origin}(&target->emplace_back());
    }
    return std::ranges::all_of(*array, [&](const toml::node& element) {
      return Store{entry, element, origin}(&target->emplace_back());
    });
  }

  /// Errors within an entry name the entry's own line.
  bool operator()(std::vector<StageSwitch>* target) const {
    target->clear();
    const toml::array* array = node.as_array();
    return array != nullptr && std::ranges::all_of(*array, [&](const toml::node& element) {
             target->push_back(read_stage_switch(element, origin));
             if (target->size() > 1 && target->back().step <= target->end()[-2].step) {
               refuse(origin.at(element),
                      "zero.schedule.step; got {} after {}, expected steps that rise",
                      target->back().step, target->end()[-2].step);
             }
             return true;
           });
  }

  template <typename T>
  static bool assign(T* target, const std::optional<T>& value) {
    if (value) {
      *target = *value;
    }
    return value.has_value();
  }
};

}  // namespace

std::string Origin::at(const toml::source_region& region) const {
  return is_file ? fmt::format("{}:{}", name, region.begin.line) : name;
}

std::string text_of(const toml::node& node) {
  if (node.is_table()) {
    return "a table";
  }
  if (const toml::array* array = node.as_array()) {
    std::vector<std::string> elements;
    for (const toml::node& element : *array) {
      elements.push_back(text_of(element));
    }
    return fmt::format("[{}]", fmt::join(elements, ", "));
  }
  if (const auto number = node.value_exact<double>()) {
    return fmt::format("{}", *number);
  }
  std::ostringstream text;
  text << toml::toml_formatter(node, toml::format_flags::none);
  return text.str();
}

bool store(RunConfig& config, const Entry& entry, const toml::node& node, const Origin& origin) {
  return std::visit(Store{entry, node, origin}, entry.field(config));
}

}  // namespace zerolab::app
