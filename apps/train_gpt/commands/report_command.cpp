#include <fmt/core.h>

#include <fstream>

#include "apps/train_gpt/commands/commands.h"
#include "apps/train_gpt/metrics/log_reader.h"
#include "apps/train_gpt/report/report_data.h"
#include "apps/train_gpt/report/report_page.h"
#include "framework/core/error.h"

namespace zerolab::app {

void write_report(const std::vector<std::filesystem::path>& runs,
                  const std::filesystem::path& page) {
  std::vector<LoggedRun> logged;
  for (const std::filesystem::path& run : runs) {
    logged.push_back(read_log(run));
  }
  std::ofstream out(page, std::ios::binary);
  out << report_page(report_data(logged));
  out.close();
  require(out.good(), "report", "cannot write {}; does its folder exist, is the disk full?",
          page.string());
  fmt::print("report: {}\n", page.string());
}

}  // namespace zerolab::app
