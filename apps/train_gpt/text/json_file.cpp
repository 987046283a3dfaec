#include "apps/train_gpt/text/json_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"

namespace zerolab::app {

void write_json_file(const std::filesystem::path& path, const nlohmann::json& json) {
  std::ofstream out(path);
  out << json.dump(1) << "\n";
  out.close();
  require(out.good(), "json", "cannot write {}; is there such a folder, and room on the disk?",
          path.string());
  fmt::print("\nthe same as JSON: {}\n", path.string());
}

}  // namespace zerolab::app
