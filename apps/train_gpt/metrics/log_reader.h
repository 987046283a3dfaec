#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerolab::app {

/// A step, or an evaluation after it.
struct LoggedStep {
  int64_t step = 0;
  double loss = 0;          ///< NaN where the log has null
  double tokens_per_s = 0;  ///< 0: an evaluation's
};

/// What a metrics.jsonl says (docs/metrics.md), whole or cut short. Records of which there is one,
/// or few, are as they stand in the log: nobody has checked the types of their fields.
struct LoggedRun {
  std::string source;  ///< the file
  nlohmann::json config;
  nlohmann::json layout;
  nlohmann::json map;                     ///< null: the log has none
  std::vector<LoggedStep> steps;          ///< in rising order
  int64_t dropped_steps = 0;              ///< that were in the log and are not in `steps` any more
  nlohmann::json last_step;               ///< the last whole step; null: none
  std::vector<nlohmann::json> timelines;  ///< the last under each stage, at most kMaxTimelines
  std::vector<nlohmann::json> stages;     ///< changes of stage, at most kMaxTimelines
  std::vector<LoggedStep> evaluations;
  int64_t skipped_steps = 0;
  nlohmann::json summary;  ///< null: the run has not ended, or with an error

  int64_t unreadable_lines = 0;
  int64_t first_unreadable_line = 0;  ///< from 1; 0: none

  static constexpr size_t kMaxTimelines = 16;
};

/// Reads a log, or that of a run's folder, in bounded memory: a few bytes a step. Lines that are no
/// record are counted and left out, so a log that is being written can be read. Throws
/// `ConfigError` where there is no such file, or no run in it.
LoggedRun read_log(const std::filesystem::path& run);

/// Reads a log in pieces, for those who come back when it has grown.
class LogReader {
 public:
  /// Throws `ConfigError` if there is no such file.
  explicit LogReader(const std::filesystem::path& run);
  ~LogReader();

  /// Reads at most a MiB on; false: there was nothing more. A line waits for its end.
  bool read_on();
  /// There will be no more: takes a last line that has no end.
  void finish();
  /// The run as read so far. A caller that drops steps but the last counts them there.
  LoggedRun& run();

 private:
  class Records;

  void end_line();

  std::ifstream stream_;
  std::string block_;
  std::string line_;
  bool too_long_ = false;
  std::unique_ptr<Records> records_;
};

}  // namespace zerolab::app
