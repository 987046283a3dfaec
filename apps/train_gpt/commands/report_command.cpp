#include "apps/train_gpt/commands/report_command.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/metrics/log_reader.h"
#include "apps/train_gpt/report/report_data.h"
#include "apps/train_gpt/report/report_page.h"
#include "apps/train_gpt/text/output_file.h"

namespace zerolab::app {

void write_report(const std::vector<std::filesystem::path>& runs,
                  const std::filesystem::path& page) {
  std::vector<LoggedRun> logged;
  for (const std::filesystem::path& run : runs) {
    logged.push_back(read_log(run));
  }
  write_output("report", page, report_page(report_data(logged)));
  fmt::print("report: {}\n", page.string());
}

Command add_report(CLI::App& program) {
  struct Options {
    std::vector<std::filesystem::path> runs;
    std::filesystem::path page = "report.html";
  };
  const auto options = std::make_shared<Options>();
  CLI::App* line = program.add_subcommand(
      "report", "Show what runs have logged as one HTML page, which works offline");
  line->add_option("RUN", options->runs, "Folders of runs, or their metrics.jsonl")->required();
  line->add_option("-o,--output", options->page, "The page")->capture_default_str();
  return {line, [options] {
            write_report(options->runs, options->page);
            return 0;
          }};
}

}  // namespace zerolab::app
