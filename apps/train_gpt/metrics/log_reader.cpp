#include "apps/train_gpt/metrics/log_reader.h"

#include <charconv>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

#include "framework/core/error.h"

namespace zerolab::app {
namespace {

/// A step of 256 ranks takes less than 1 MiB. What is longer is no line of ours, and is not kept.
constexpr size_t kLongestLine = size_t{16} << 20;
/// Of values in values; ours need a few. To copy or write a value takes stack for each.
constexpr int kDeepest = 64;

/// Takes a JSON object apart into its own keys and the texts of their values, without looking into
/// them: much faster than parsing, where few of a line's fields are wanted.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}

  /// Whether the text is an object as far as this looks.
  bool for_each(const std::function<void(std::string_view key, std::string_view value)>& call) {
    if (!take('{')) {
      return false;
    }
    while (true) {
      skip_blanks();
      const std::optional<std::string_view> key = string();
      if (!key.has_value() || !take(':')) {
        return false;
      }
      skip_blanks();
      const std::optional<std::string_view> text = value();
      if (!text.has_value()) {
        return false;
      }
      call(*key, *text);
      if (!take(',')) {
        break;
      }
    }
    const bool closed = take('}');
    skip_blanks();
    return closed && rest_.empty();
  }

 private:
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  bool take(char wanted) {
    skip_blanks();
    const bool found = rest_.starts_with(wanted);
    rest_.remove_prefix(found ? 1 : 0);
    return found;
  }
  /// Hands over the first `length` characters.
  std::string_view cut(size_t length) {
    const std::string_view text = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return text;
  }
  /// One past the closing quote of the string that begins at `at`; npos: none.
  size_t string_end(size_t at) const {
    for (++at; at < rest_.size(); ++at) {
      if (rest_[at] == '\\') {
        ++at;
      } else if (rest_[at] == '"') {
        return at + 1;
      }
    }
    return std::string_view::npos;
  }
  /// Without its quotes.
  std::optional<std::string_view> string() {
    const size_t end = rest_.starts_with('"') ? string_end(0) : std::string_view::npos;
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view text = cut(end);
    return text.substr(1, text.size() - 2);
  }
  std::optional<std::string_view> value() {
    if (rest_.starts_with('"')) {
      return string();
    }
    if (!rest_.starts_with('{') && !rest_.starts_with('[')) {
      const size_t end = rest_.find_first_of(",} \t\r\n");
      return end == 0 || end == std::string_view::npos ? std::nullopt : std::optional(cut(end));
    }
    int depth = 0;
    for (size_t at = 0; at < rest_.size();) {
      const char c = rest_[at];
      if (c == '"') {
        at = string_end(at);
        continue;
      }
      ++at;
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      if (depth == 0) {
        return cut(at);
      }
      if (depth > kDeepest) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::string_view rest_;
};

template <typename T>
bool read_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// null, which the log has for what is not finite, is NaN.
bool read_value(std::string_view text, double& number) {
  number = std::numeric_limits<double>::quiet_NaN();
  return text == "null" || read_number(text, number);
}

}  // namespace

/// Takes lines for records.
class LogReader::Records {
 public:
  LoggedRun run;

  void line(std::string_view text, bool too_long) {
    ++number_;
    if (text.empty() && !too_long) {
      return;
    }
    if (too_long || !record(text)) {
      ++run.unreadable_lines;
      run.first_unreadable_line =
          run.first_unreadable_line == 0 ? number_ : run.first_unreadable_line;
    }
  }

  /// The last step alone is parsed whole.
  void parse_last_step() {
    const nlohmann::json last = nlohmann::json::parse(last_step_, nullptr, false);
    run.last_step = last.is_discarded() ? nlohmann::json() : last;
  }

 private:
  bool record(std::string_view text) {
    std::string_view event;
    LoggedStep step;
    bool whole = true;
    bool has_step = false;
    bool has_loss = false;
    const bool is_object = Fields(text).for_each([&](std::string_view key, std::string_view value) {
      if (key == "event") {
        event = value;
      } else if (key == "step") {
        has_step = read_number(value, step.step);
      } else if (key == "loss") {
        has_loss = read_value(value, step.loss);
      } else if (key == "tokens_per_s") {
        whole = whole && read_value(value, step.tokens_per_s);
      }
    });
    if (!is_object) {
      return false;
    }
    if (event == "step" || event == "eval") {
      whole = whole && has_step && has_loss;
      return whole && (event == "step" ? add_step(step, text) : add_evaluation(step));
    }
    if (event == "skip") {
      ++run.skipped_steps;
      return true;
    }
    return event == "checkpoint" || event == "resume" || add_record(event, text);
  }

  bool add_step(const LoggedStep& step, std::string_view text) {
    if (!run.steps.empty() && step.step <= run.steps.back().step) {
      return false;
    }
    run.steps.push_back(step);
    last_step_ = text;
    return true;
  }

  bool add_evaluation(const LoggedStep& step) {
    run.evaluations.push_back({step.step, step.loss});
    return true;
  }

  /// Those that there are few of, which are parsed whole.
  bool add_record(std::string_view event, std::string_view text) {
    nlohmann::json* const single = event == "config"    ? &run.config
                                   : event == "layout"  ? &run.layout
                                   : event == "map"     ? &run.map
                                   : event == "summary" ? &run.summary
                                                        : nullptr;
    std::vector<nlohmann::json>* const list = event == "timeline" ? &run.timelines
                                              : event == "stage"  ? &run.stages
                                                                  : nullptr;
    if (single == nullptr && list == nullptr) {
      return false;
    }
    nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
    if (parsed.is_discarded()) {
      return false;
    }
    if (single != nullptr) {
      *single = std::move(parsed);
    } else if (event == "timeline" && !list->empty() && list->back()["stage"] == parsed["stage"]) {
      list->back() = std::move(parsed);
    } else if (list->size() < LoggedRun::kMaxTimelines) {
      list->push_back(std::move(parsed));
    }
    return true;
  }

  int64_t number_ = 0;
  std::string last_step_;
};

LogReader::LogReader(const std::filesystem::path& run)
    : block_(size_t{1} << 20, '\0'), records_(std::make_unique<Records>()) {
  const std::filesystem::path file =
      std::filesystem::is_directory(run) ? run / "metrics.jsonl" : run;
  // Not a device or a pipe, which may have no end.
  if (!std::filesystem::is_regular_file(file)) {
    throw ConfigError("report", fmt::format("{}: no such file; expected a run's folder or its "
                                            "metrics.jsonl (of a comparison: each run's folder)",
                                            file.string()));
  }
  stream_.open(file, std::ios::binary);
  if (!stream_) {
    throw ConfigError("report", fmt::format("{}: cannot be read", file.string()));
  }
  records_->run.source = file.string();
}

LogReader::~LogReader() = default;

bool LogReader::read_on() {
  stream_.clear();  // what was the end may be none any more
  stream_.read(block_.data(), static_cast<std::streamsize>(block_.size()));
  std::string_view rest(block_.data(), stream_.gcount());
  const auto append = [&](std::string_view text) {
    too_long_ = too_long_ || line_.size() + text.size() > kLongestLine;
    too_long_ ? line_.clear() : void(line_ += text);
  };
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos;) {
    append(rest.substr(0, end));
    end_line();
    rest.remove_prefix(end + 1);
  }
  append(rest);
  return stream_.gcount() > 0;
}

void LogReader::end_line() {
  records_->line(line_, too_long_);
  line_.clear();
  too_long_ = false;
}

void LogReader::finish() {
  if (!line_.empty() || too_long_) {
    end_line();
  }
}

LoggedRun& LogReader::run() {
  records_->parse_last_step();
  return records_->run;
}

LoggedRun read_log(const std::filesystem::path& run) {
  LogReader reader(run);
  while (reader.read_on()) {
  }
  reader.finish();
  LoggedRun logged = std::move(reader.run());
  if (!logged.config.is_object() || !logged.layout.is_object()) {
    throw ConfigError(
        "report",
        fmt::format("{}: holds no run; got {} lines that are no record, expected the log of "
                    "train-gpt, which begins with a config and a layout (docs/metrics.md)",
                    logged.source, logged.unreadable_lines));
  }
  return logged;
}

}  // namespace zerolab::app
