#pragma once

#include <toml++/toml.h>

#include <string>

#include "apps/train_gpt/config/config_table.h"

namespace zerolab::app {

/// The source of a value: a file, whose lines messages name, or an override.
struct Origin {
  std::string name;
  bool is_file = false;

  /// "demo.toml:12" or "--set zero.stage".
  std::string at(const toml::source_region& region) const;
  std::string at(const toml::node& node) const { return at(node.source()); }
};

/// A value as messages show it, on one line and with the digits that the user wrote.
std::string text_of(const toml::node& node);

/// Stores a TOML value in `entry`'s field; false if type, range or choice is wrong.
bool store(RunConfig& config, const Entry& entry, const toml::node& node, const Origin& origin);

}  // namespace zerolab::app
