#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "apps/train_gpt/run_file.h"

namespace zerolab::app {

/// Writes `<run folder>/metrics.jsonl`, one JSON object a line and a write. Numbers that are not
/// finite are written as null.
class MetricsLog {
 public:
  explicit MetricsLog(const std::filesystem::path& run_folder)
      : file_(run_folder, "metrics.jsonl", "metrics") {}

  void write(const nlohmann::json& record);
  const std::string& path() const { return file_.path(); }

 private:
  RunFile file_;
};

}  // namespace zerolab::app
