#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/train_gpt/config/config_table.h"

namespace zerolab::app {
namespace {

/// Calls `section(name)` before the first key of each section and `key(entry)` for each key.
template <typename Section, typename Key>
void walk(Section section, Key key) {
  std::string_view current;
  for (const Entry& entry : config_table()) {
    if (entry.section != current) {
      current = entry.section;
      section(current);
    }
    key(entry);
  }
}

/// Escapes text that Markdown would take for a tag or the end of a cell.
std::string literal(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '<' || c == '|' ? fmt::format("\\{}", c) : std::string(1, c);
  }
  return escaped;
}

}  // namespace

std::string toml_value(const nlohmann::json& value) {
  std::vector<std::string> parts;
  if (value.is_array()) {
    for (const nlohmann::json& element : value) {
      parts.push_back(toml_value(element));
    }
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  if (value.is_object()) {
    for (const auto& [key, element] : value.items()) {
      parts.push_back(fmt::format("{} = {}", key, toml_value(element)));
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  // JSON's scalars are TOML too. Text that is not UTF-8 can come from the command line.
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void to_json(nlohmann::json& json, const StageSwitch& change) {
  json = {{"step", change.step}, {"stage", change.stage}};
}

std::string dump_toml(const RunConfig& config) {
  std::string text;
  walk(
      [&](std::string_view section) {
        text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
      },
      [&](const Entry& entry) {
        text += fmt::format("{} = {}\n", entry.key, toml_value(entry.value(config)));
      });
  return text;
}

nlohmann::json to_json(const RunConfig& config) {
  nlohmann::json flat = nlohmann::json::object();
  for (const Entry& entry : config_table()) {
    flat[entry.name()] = entry.value(config);
  }
  return flat;
}

std::string config_help() {
  const RunConfig defaults;
  std::string text =
      "Keys of the configuration file, each with its default. --set section.key=value "
      "sets one on the command line.\n";
  walk([&](std::string_view section) { text += fmt::format("\n[{}]\n", section); },
       [&](const Entry& entry) {
         text += fmt::format("  {} = {}\n      {}\n      Expects {}.\n", entry.key,
                             toml_value(entry.value(defaults)), entry.help, entry.expected());
       });
  return text;
}

std::string config_markdown() {
  const RunConfig defaults;
  std::string text;
  walk(
      [&](std::string_view section) {
        text += fmt::format("\n## [{}]\n| key | default | expects | meaning |\n|---|---|---|---|\n",
                            section);
      },
      [&](const Entry& entry) {
        text +=
            fmt::format("| `{}` | `{}` | {} | {} |\n", entry.key, toml_value(entry.value(defaults)),
                        literal(entry.expected()), literal(entry.help));
      });
  return text;
}

}  // namespace zerolab::app
