#include "apps/train_gpt/text/json_file.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "apps/train_gpt/text/output_file.h"

namespace zerolab::app {

void write_json_file(const std::filesystem::path& path, const nlohmann::json& json) {
  write_output("json", path, json.dump(1) + "\n");
  fmt::print("\nthe same as JSON: {}\n", path.string());
}

}  // namespace zerolab::app
