#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "apps/train_gpt/config/config_value.h"
#include "apps/train_gpt/config/refuse.h"

namespace zerolab::app {
namespace {

void set_key(RunConfig& config, std::string_view section, std::string_view key,
             const toml::source_region& region, const toml::node& node, const Origin& origin) {
  const std::string place = origin.at(region);
  const Entry* entry = find_entry(section, key);
  if (entry == nullptr) {
    refuse(place, "unknown key; got {}{}{}, expected a key of train-gpt --help; the nearest is {}",
           section, section.empty() ? "" : ".", key, nearest_entry(section, key).name());
  }
  if (!store(config, *entry, node, origin)) {
    refuse(place, "{}; got {}, expected {}", entry->name(), text_of(node), entry->expected());
  }
  config.set_at[entry->name()] = place;
  if (entry->name() == "zero.schedule") {
    for (size_t i = 0; i < config.zero.schedule.size(); ++i) {
      config.set_at[fmt::format("zero.schedule[{}]", i)] = origin.at((*node.as_array())[i]);
    }
  }
}

void refuse_unknown_section(std::string_view section, const std::string& place) {
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

/// The value that an override's text means for a key: TOML, or the plain text if that is no TOML
/// value or the key wants text (`--set run.name=2024-05-01`).
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

/// The same, with what the log holds as JSON: its tables have a colon where TOML has an equals
/// sign.
std::string json_as_toml(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  return json.is_array() ? toml_value(json) : text;
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
  const Origin origin = {.name = source, .is_file = true};
  for (const auto& [section, node] : file) {
    const toml::table* keys = node.as_table();
    if (keys == nullptr && !is_section(section.str())) {
      set_key(config, "", section.str(), section.source(), node, origin);
    }
    refuse_unknown_section(section.str(), origin.at(section.source()));
    if (keys == nullptr) {
      refuse(origin.at(section.source()), "{}; got {}, expected a section [{}]", section.str(),
             text_of(node), section.str());
    }
    for (const auto& [key, value] : *keys) {
      set_key(config, section.str(), key.str(), key.source(), value, origin);
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
  const toml::table value =
      override_value(json_as_toml(assignment.substr(equals + 1)), find_entry(section, key));
  set_key(config, section, key, {}, *value.get("value"), {.name = place});
}

RunConfig read_config(const std::filesystem::path& file) {
  return parse_config(read_file(file), file.string());
}

}  // namespace zerolab::app
