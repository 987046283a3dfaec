#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace zerolab::app {

/// Writes `json` beside what a command has printed, and prints where. Throws `Error` when it
/// cannot.
void write_json_file(const std::filesystem::path& path, const nlohmann::json& json);

}  // namespace zerolab::app
