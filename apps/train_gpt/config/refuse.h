#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "apps/train_gpt/config/config.h"
#include "framework/core/error.h"

namespace zerolab::app {

/// Throws the `ConfigError` that begins with a place: "demo.toml:12", "--set zero.stage".
template <typename... Args>
[[noreturn]] void refuse(const std::string& place, fmt::format_string<Args...> format,
                         Args&&... args) {
  throw ConfigError("config", place + ": " + fmt::format(format, std::forward<Args>(args)...));
}

/// The same with the place where `key` was set, or the file if it has its default.
template <typename... Args>
[[noreturn]] void refuse(const RunConfig& config, const std::string& key,
                         fmt::format_string<Args...> format, Args&&... args) {
  refuse(config.place_of(key), format, std::forward<Args>(args)...);
}

}  // namespace zerolab::app
