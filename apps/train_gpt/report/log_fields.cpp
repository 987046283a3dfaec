#include "apps/train_gpt/report/log_fields.h"

#include <algorithm>

#include "zero/stage.h"

namespace zerolab::app {

using nlohmann::json;

json at(const json& record, const std::string& pointer) {
  const json::json_pointer path(pointer);
  return record.contains(path) ? record.at(path) : json();
}

json list_at(const json& record, const std::string& pointer, size_t most) {
  json list = at(record, pointer);
  if (!list.is_array()) {
    return json::array();
  }
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(std::min(most, list.size())), list.end());
  return list;
}

double number_at(const json& record, const std::string& pointer) {
  const json value = at(record, pointer);
  return value.is_number() ? value.get<double>() : 0.0;
}

int64_t whole_at(const json& record, const std::string& pointer) {
  return static_cast<int64_t>(std::clamp(number_at(record, pointer), -1e15, 1e15));
}

std::string text_of(const json& value) {
  constexpr size_t kLongest = 120;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

json setting(const LoggedRun& run, const std::string& key) {
  return at(run.config, "/config/" + key);
}

int64_t ranks_of(const LoggedRun& run) {
  return std::max<int64_t>(1, whole_at(run.config, "/config/launch.ranks"));
}

std::string stage_title(const json& stage) {
  const double number = stage.is_number() ? stage.get<double>() : -1.0;
  return number == 0.0 || number == 1.0 || number == 2.0
             ? std::string(zero::name_of_stage(static_cast<int>(number)))
             : "unknown stage";
}

const json& totals_of(const LoggedRun& run) {
  return run.summary.is_object() ? run.summary : run.last_step;
}

}  // namespace zerolab::app
