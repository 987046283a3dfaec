// Without the report: Chart.js is not in the build.
#include "apps/train_gpt/report/report_page.h"
#include "framework/core/error.h"

namespace zerolab::app {

const std::string_view kReportTemplate;

std::string report_page(const nlohmann::json& /*data*/) {
  throw ConfigError("report", "this train-gpt has no report; build it with -DZEROLAB_REPORT=ON");
}

}  // namespace zerolab::app
