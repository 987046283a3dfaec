#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"
#include "apps/train_gpt/setup/resolve_config.h"
#include "framework/core/error.h"

namespace zerolab::app {

/// The text of the `ConfigError` that `call` throws.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

inline std::string parse_error(const std::string& text) {
  return error_of([&] { parse_config(text, "demo.toml"); });
}

/// The defaults with overrides, resolved; the data is a file that is there on every machine.
inline RunConfig resolved(const std::vector<std::string>& overrides) {
  RunConfig config;
  apply_override(config, "data.path=/dev/null");
  apply_override(config, "launch.device=cpu");
  for (const std::string& assignment : overrides) {
    apply_override(config, assignment);
  }
  resolve(config);
  return config;
}

inline std::string error_with(const std::vector<std::string>& overrides) {
  return error_of([&] { resolved(overrides); });
}

}  // namespace zerolab::app
