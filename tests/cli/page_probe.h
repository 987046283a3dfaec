#pragma once

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerolab::test {

/// A page in a headless Chromium, by tests/cli/probe_page.py, which says what a reader would see.
class PageProbe {
 public:
  /// `page` is a file, or the address of a live page.
  explicit PageProbe(const std::string& page);
  ~PageProbe();
  PageProbe(const PageProbe&) = delete;
  PageProbe& operator=(const PageProbe&) = delete;

  /// Waits for the next look. A file has one; a live page's are: as it is found, when its numbers
  /// have changed, and when it says that the run has ended. No object: the browser has failed.
  nlohmann::json next();

 private:
  std::FILE* pipe_;
};

/// The rows of a table of a look's section: by the head's names, for each row.
std::vector<std::map<std::string, nlohmann::json>> rows_of(const nlohmann::json& look,
                                                           const std::string& section,
                                                           size_t index);

}  // namespace zerolab::test
