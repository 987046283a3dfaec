#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "apps/train_gpt/metrics/run_file.h"

namespace zerolab::app {

/// Writes `<run folder>/metrics.jsonl`, one JSON object a line and a write. Numbers that are not
/// finite are written as null.
class MetricsLog {
 public:
  /// `steps_kept`: goes on with the log of a run that is resumed after that step, without what the
  /// log says of later ones; none: a new log.
  explicit MetricsLog(const std::filesystem::path& run_folder,
                      std::optional<int64_t> steps_kept = std::nullopt);

  void write(const nlohmann::json& record);
  const std::string& path() const { return file_.path(); }

 private:
  RunFile file_;
};

}  // namespace zerolab::app
