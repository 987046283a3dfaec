#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// The values a number may have. An open end excludes its bound.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;
  bool open_max = false;

  bool contains(double value) const;
  std::string text() const;
};

using Choices = std::vector<std::string_view>;

/// Where a key's value lives in a `RunConfig`; the alternative is the key's type.
using Field = std::variant<bool*, int64_t*, double*, std::string*, std::array<double, 2>*,
                           std::vector<std::string>*, std::vector<StageSwitch>*>;

enum class Unit {
  kNone,
  kBytes,  ///< An integer, or text such as "4GiB".
};

/// One key of the configuration. Parsing, checks, help, defaults and dumps all follow from it.
struct Entry {
  std::string_view section;
  std::string_view key;
  std::string_view help;
  Range range;
  Choices choices;            ///< Of a text key; empty: any text.
  bool zero_is_auto = false;  ///< "auto" is accepted, kept as 0, and dumped as "auto".
  Unit unit = Unit::kNone;

  Field (*field)(RunConfig&) = nullptr;
  nlohmann::json (*stored)(const RunConfig&) = nullptr;

  std::string name() const;
  /// What messages and the help expect: `an integer >= 0 and <= 2`, `"byte" or "char"`.
  std::string expected() const;
  /// The value as it stands in a dump: `stored`, or "auto".
  nlohmann::json value(const RunConfig& config) const;
};

/// A value as TOML text on one line.
std::string toml_value(const nlohmann::json& value);

/// All keys; those of one section stand together.
const std::vector<Entry>& config_table();

/// All keys as docs/config.md shows them: a Markdown table a section.
std::string config_markdown();

bool is_section(std::string_view name);
const Entry* find_entry(std::string_view section, std::string_view key);

/// The valid key or section that takes the fewest edits; a key of the same section is preferred.
const Entry& nearest_entry(std::string_view section, std::string_view key);
std::string_view nearest_section(std::string_view name);

}  // namespace zerolab::app
