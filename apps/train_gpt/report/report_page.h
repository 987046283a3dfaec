#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace zerolab::app {

/// The report's page (apps/train_gpt/report/) with "{{data}}" where its data go: one HTML file that
/// fetches nothing.
extern const std::string_view kReportTemplate;

/// The page that shows `data` (report_data.h), of which nothing can be taken for HTML.
std::string report_page(const nlohmann::json& data);

}  // namespace zerolab::app
