#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerolab::app {

struct LoggedStep {
  int64_t step = 0;
  double loss = 0;  ///< NaN where the log has null
  double tokens_per_s = 0;
};

struct LoggedEvaluation {
  int64_t step = 0;
  double loss = 0;
};

/// What a metrics.jsonl says (docs/metrics.md), whole or cut short. Records of which there is one,
/// or few, are as they stand in the log: nobody has checked the types of their fields.
struct LoggedRun {
  std::string source;  ///< the file
  nlohmann::json config;
  nlohmann::json layout;
  nlohmann::json map;                     ///< null: the log has none
  std::vector<LoggedStep> steps;          ///< in rising order
  nlohmann::json last_step;               ///< the last whole step; null: none
  std::vector<nlohmann::json> timelines;  ///< the last under each stage, at most kMaxTimelines
  std::vector<nlohmann::json> stages;     ///< changes of stage, at most kMaxTimelines
  std::vector<LoggedEvaluation> evaluations;
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

}  // namespace zerolab::app
