#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace zerolab {

/// Any fault that a user can cause or must know of. The text reads
/// `[component] what; got …, expected …; hint`. Nothing in zerolab exits, aborts or asserts on user
/// input.
class Error : public std::runtime_error {
 public:
  Error(std::string_view component, std::string_view message)
      : std::runtime_error(fmt::format("[{}] {}", component, message)) {}
};

/// A fault of the configuration or the command line: the program ends with status 2.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// Throws `Error` with a formatted message.
template <typename... Args>
[[noreturn]] void fail(std::string_view component, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(component, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws `Error` unless `condition` holds.
template <typename... Args>
void require(bool condition, std::string_view component, fmt::format_string<Args...> format,
             Args&&... args) {
  if (!condition) [[unlikely]] {
    fail(component, format, std::forward<Args>(args)...);
  }
}

}  // namespace zerolab
