#pragma once

#include <filesystem>
#include <vector>

namespace zerolab::app {

/// Writes what the logs of `runs` (folders or metrics.jsonl) say as one HTML file, and prints its
/// path.
void write_report(const std::vector<std::filesystem::path>& runs,
                  const std::filesystem::path& page);

}  // namespace zerolab::app
