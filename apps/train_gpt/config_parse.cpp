#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "apps/train_gpt/config_table.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

template <typename... Args>
[[noreturn]] void refuse(const std::string& place, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw ConfigError("config", place + ": " + fmt::format(format, std::forward<Args>(args)...));
}

/// A value as messages show it, on one line and with the digits that the user wrote.
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

std::optional<int64_t> read_integer(const Entry& entry, const toml::node& node) {
  if (const auto text = node.value_exact<std::string_view>()) {
    if (entry.zero_is_auto && *text == "auto") {
      return 0;
    }
    return entry.unit == Unit::kBytes ? parse_bytes(*text) : std::nullopt;
  }
  if (const auto number = node.value_exact<double>()) {
    return to_integer(*number);
  }
  return node.value_exact<int64_t>();
}

std::optional<double> read_number(const toml::node& node) {
  if (const auto integer = node.value_exact<int64_t>()) {
    return static_cast<double>(*integer);
  }
  return node.value_exact<double>();
}

/// Stores a TOML value in a field of the same type; false if type, range or choice is wrong.
struct Store {
  const Entry& entry;
  const toml::node& node;

  bool operator()(bool* target) const { return assign(target, node.value_exact<bool>()); }

  bool operator()(int64_t* target) const {
    const auto value = read_integer(entry, node);
    return value && entry.range.contains(static_cast<double>(*value)) && assign(target, value);
  }

  bool operator()(double* target) const {
    const auto value = read_number(node);
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
    return array != nullptr && array->size() == 2 && Store{entry, (*array)[0]}(&(*target)[0]) &&
           Store{entry, (*array)[1]}(&(*target)[1]);
  }

  bool operator()(std::vector<std::string>* target) const {
    target->clear();
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      return Store{entry, node}(&target->emplace_back());
    }
    return std::ranges::all_of(*array, [&](const toml::node& element) {
      return Store{entry, element}(&target->emplace_back());
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

void refuse_if_not_built(const RunConfig& config, const Entry& entry, const std::string& place) {
  const nlohmann::json value = entry.value(config);
  const nlohmann::json default_value = entry.value(RunConfig{});
  if (!entry.built && value != default_value) {
    refuse(place, "{} is not built in this version; got {}, expected {}; leave the key out",
           entry.name(), value.dump(), default_value.dump());
  }
  if (std::ranges::find(entry.choices_to_come, value) != entry.choices_to_come.end()) {
    refuse(place, "{} = {} is not built in this version; expected {}", entry.name(), value.dump(),
           entry.expected());
  }
}

void refuse_section_to_come(std::string_view name, const std::string& place) {
  if (is_section_to_come(name)) {
    refuse(place, "[{}] is not built in this version; leave it out", name);
  }
}

void set_key(RunConfig& config, std::string_view section, std::string_view key,
             const toml::node& node, const std::string& place) {
  refuse_section_to_come(fmt::format("{}.{}", section, key), place);
  const Entry* entry = find_entry(section, key);
  if (entry == nullptr) {
    refuse(place, "unknown key; got {}{}{}, expected a key of train-gpt --help; the nearest is {}",
           section, section.empty() ? "" : ".", key, nearest_entry(section, key).name());
  }
  if (!std::visit(Store{*entry, node}, entry->field(config))) {
    refuse(place, "{}; got {}, expected {}", entry->name(), text_of(node), entry->expected());
  }
  refuse_if_not_built(config, *entry, place);
  config.set_at[entry->name()] = place;
}

void refuse_unknown_section(std::string_view section, const std::string& place) {
  refuse_section_to_come(section, place);
  if (!is_section(section)) {
    refuse(place,
           "unknown section; got [{}], expected a section of train-gpt --help; the nearest is [{}]",
           section, nearest_section(section));
  }
}

bool wants_text(const Entry* entry) {
  RunConfig config;
  const Field field = entry == nullptr ? Field{} : entry->field(config);
  return std::holds_alternative<std::string*>(field) ||
         std::holds_alternative<std::vector<std::string>*>(field);
}

/// What an override's text means for a key: TOML, or the plain text where that is no TOML value or
/// the key wants text (`--set run.name=2024-05-01`).
toml::table override_value(const std::string& text, const Entry* entry) {
  toml::table plain{{"value", text}};
  try {
    toml::table parsed = toml::parse("value = " + text);
    const toml::node* value = parsed.get("value");
    const bool is_text = value->is_string() || value->is_array();
    return parsed.size() == 1 && (is_text || !wants_text(entry)) ? parsed : plain;
  } catch (const toml::parse_error&) {
    return plain;
  }
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) {
    refuse(file.string(), "cannot be read; {}", std::generic_category().message(errno));
  }
  if (std::filesystem::is_directory(file)) {
    refuse(file.string(), "cannot be read; it is a folder");
  }
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

RunConfig parse_config(const std::string& toml_text, const std::string& source) {
  toml::table file;
  try {
    file = toml::parse(toml_text, source);
  } catch (const toml::parse_error& error) {
    refuse(fmt::format("{}:{}", source, error.source().begin.line), "not TOML; {}",
           error.description());
  }
  RunConfig config;
  config.source = source;
  const auto place_of = [&](const toml::key& key) {
    return fmt::format("{}:{}", source, key.source().begin.line);
  };
  for (const auto& [section, node] : file) {
    const toml::table* keys = node.as_table();
    if (keys == nullptr && !is_section(section.str()) && !is_section_to_come(section.str())) {
      set_key(config, "", section.str(), node, place_of(section));
    }
    refuse_unknown_section(section.str(), place_of(section));
    if (keys == nullptr) {
      refuse(place_of(section), "{}; got {}, expected a section [{}]", section.str(), text_of(node),
             section.str());
    }
    for (const auto& [key, value] : *keys) {
      set_key(config, section.str(), key.str(), value, place_of(key));
    }
  }
  return config;
}

void apply_override(RunConfig& config, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  const std::string place = "--set " + name;
  if (equals == std::string::npos) {
    refuse(place, "no value; got no \"=\", expected section.key=value");
  }
  const size_t dot = name.find('.');
  const std::string section = dot == std::string::npos ? "" : name.substr(0, dot);
  const std::string key = dot == std::string::npos ? name : name.substr(dot + 1);
  if (!section.empty()) {
    refuse_unknown_section(section, place);
  }
  const toml::table value = override_value(assignment.substr(equals + 1), find_entry(section, key));
  set_key(config, section, key, *value.get("value"), place);
}

RunConfig load_config(const std::filesystem::path& file,
                      const std::vector<std::string>& overrides) {
  RunConfig config = parse_config(read_file(file), file.string());
  for (const std::string& assignment : overrides) {
    apply_override(config, assignment);
  }
  resolve(config, file);
  return config;
}

}  // namespace zerolab::app
