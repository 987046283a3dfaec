#include "tests/cli/page_probe.h"

#include <gtest/gtest.h>

namespace zerolab::test {

using nlohmann::json;

PageProbe::PageProbe(const std::string& page)
    : pipe_(popen(("python3 '" SOURCE_FOLDER "/tests/cli/probe_page.py' '" + page + "'").c_str(),
                  "r")) {}

PageProbe::~PageProbe() { EXPECT_EQ(pclose(pipe_), 0); }

json PageProbe::next() {
  std::string line;
  for (int c; (c = std::fgetc(pipe_)) != EOF && c != '\n';) {
    line += static_cast<char>(c);
  }
  return json::parse(line, nullptr, false);
}

std::vector<std::map<std::string, json>> rows_of(const json& look, const std::string& section,
                                                 size_t index) {
  std::vector<std::map<std::string, json>> rows;
  const json& table = look.at("tables").at(section).at(index);
  for (const json& row : table.at("rows")) {
    rows.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      rows.back()[table.at("head").at(i)] = row.at(i);
    }
  }
  return rows;
}

}  // namespace zerolab::test
