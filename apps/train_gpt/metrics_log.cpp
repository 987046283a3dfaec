#include "apps/train_gpt/metrics_log.h"

#include <nlohmann/json.hpp>

namespace zerolab::app {

void MetricsLog::write(const nlohmann::json& record) {
  file_.write(record.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace zerolab::app
