#include "apps/train_gpt/metrics/metrics_log.h"

#include <nlohmann/json.hpp>

#include <fstream>

#include "framework/file/durable_file.h"

namespace zerolab::app {
namespace {

/// Whether a run that goes on after step `last` keeps this line. It drops the end of the run, and
/// half lines.
bool is_kept(const std::string& line, int64_t last) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object() || record.value("event", nlohmann::json()) == "summary") {
    return false;
  }
  const nlohmann::json step = record.value("step", nlohmann::json(0));
  return step.is_number_integer() && step <= last;
}

/// The new log takes the old one's place at once.
void cut(const std::filesystem::path& path, int64_t last) {
  std::ifstream old(path, std::ios::binary);
  if (!old) {
    return;
  }
  DurableFile file(path);
  std::string line;
  while (std::getline(old, line)) {
    if (is_kept(line, last)) {
      line += '\n';
      file.write(line);
    }
  }
  file.commit();
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_folder, std::optional<int64_t> steps_kept)
    : file_([&] {
        if (steps_kept.has_value()) {
          cut(run_folder / "metrics.jsonl", *steps_kept);
        }
        return RunFile(run_folder, "metrics.jsonl", "metrics", steps_kept.has_value());
      }()) {}

void MetricsLog::write(const nlohmann::json& record) {
  file_.write(record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace zerolab::app
