#pragma once

#include <string>
#include <vector>

#include "apps/train_gpt/inference/saved_model.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace zerolab::app {

/// The options that name a configuration: CONFIG and --set.
struct ConfigOptions {
  std::string file;
  std::vector<std::string> overrides;
};
/// Returns CONFIG, which is required.
CLI::Option* add_config(CLI::App& line, ConfigOptions& config);

/// Every stage there is.
std::vector<int> all_stages();
/// --stages, such as 0,2.
CLI::Option* add_stages(CLI::App& line, std::vector<int>& stages, const std::string& help);

/// Which trained model a command uses: --checkpoint or --config, and --set.
void add_model_source(CLI::App& line, SavedModel::Source& source);

}  // namespace zerolab::app
