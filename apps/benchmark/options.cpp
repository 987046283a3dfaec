#include "apps/benchmark/options.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/train_gpt/text/output_file.h"

namespace zerolab::bench {

int num_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int threads_of_a_rank(int ranks) { return std::max(1, num_cores() / ranks); }

void add_json(CLI::App& line, std::string& path) {
  line.add_option("--json", path, "Write the result to this file as well");
}

void write_result(const std::string& path, const nlohmann::json& result) {
  if (!path.empty()) {
    app::write_output("benchmark", path, result.dump(2) + "\n");
  }
}

}  // namespace zerolab::bench
