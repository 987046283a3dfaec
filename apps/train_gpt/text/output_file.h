#pragma once

#include <filesystem>
#include <string_view>

namespace zerolab::app {

/// Writes `text` as the file, device or pipe that the user named, in place of what it held. Throws
/// `Error` of `component` when it cannot.
void write_output(std::string_view component, const std::filesystem::path& path,
                  std::string_view text);

}  // namespace zerolab::app
