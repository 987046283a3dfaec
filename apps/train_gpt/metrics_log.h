#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace zerolab::app {

/// Writes `<run folder>/metrics.jsonl`, one JSON object a line. Construction makes the folder and
/// finds out whether the file can be written, but leaves an older log as it is; the first record
/// replaces it. Each line is one write(), so that a reader, or a killed run, never sees half of
/// one. Numbers that are not finite are written as null. Faults are `Error`s that name the file.
class MetricsLog {
 public:
  explicit MetricsLog(const std::filesystem::path& run_folder);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void write(const nlohmann::json& record);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  bool begun_ = false;
};

}  // namespace zerolab::app
