#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/train_gpt/metrics/log_reader.h"

namespace zerolab::app {

// Fields of logged records, whose types nobody has checked. `pointer` is a JSON pointer, such as
// "/ms/forward".

/// What `pointer` leads to; null where it leads nowhere.
nlohmann::json at(const nlohmann::json& record, const std::string& pointer);
/// The first `most` of a list; none where there is no list. A foreign log may hold any number.
nlohmann::json list_at(const nlohmann::json& record, const std::string& pointer, size_t most);
/// 0 where there is no number.
double number_at(const nlohmann::json& record, const std::string& pointer);
/// As a whole number; what is far beyond any count of ours is cut.
int64_t whole_at(const nlohmann::json& record, const std::string& pointer);
/// A text, cut where it is long; empty where it is none.
std::string text_of(const nlohmann::json& value);

/// A key's value in the run's configuration, such as "run.name".
nlohmann::json setting(const LoggedRun& run, const std::string& key);
/// At least 1.
int64_t ranks_of(const LoggedRun& run);
/// "ZeRO-2", or "unknown stage".
std::string stage_title(const nlohmann::json& stage);
/// What a run did a step: means over the whole run, or its last step's where it has not ended.
const nlohmann::json& totals_of(const LoggedRun& run);

}  // namespace zerolab::app
