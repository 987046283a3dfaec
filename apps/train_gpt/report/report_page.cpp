#include "apps/train_gpt/report/report_page.h"

namespace zerolab::app {

std::string report_page(const nlohmann::json& data) {
  constexpr std::string_view kPlace = "{{data}}";
  const size_t place = kReportTemplate.find(kPlace);
  std::string page(kReportTemplate.substr(0, place));
  for (const char c : data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {
    // Only strings can hold a '<', which might end the script element; as JSON this is the same.
    c == '<' ? page += "\\u003c" : page += c;
  }
  return page += kReportTemplate.substr(place + kPlace.size());
}

}  // namespace zerolab::app
