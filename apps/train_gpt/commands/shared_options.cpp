#include "apps/train_gpt/commands/shared_options.h"

#include <CLI/CLI.hpp>

#include "zero/options.h"

namespace zerolab::app {

CLI::Option* add_config(CLI::App& line, ConfigOptions& config) {
  CLI::Option* const option = line.add_option("CONFIG", config.file, "TOML file")->required();
  line.add_option("--set", config.overrides,
                  "section.key=value, over what the file says; may be repeated")
      ->allow_extra_args(false);
  return option;
}

std::vector<int> all_stages() { return {zero::kStages.begin(), zero::kStages.end()}; }

CLI::Option* add_stages(CLI::App& line, std::vector<int>& stages, const std::string& help) {
  return line.add_option("--stages", stages, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(0, zero::kLastStage));
}

void add_model_source(CLI::App& line, SavedModel::Source& source) {
  CLI::Option_group* group = line.add_option_group("model", "Which model, one of");
  group->add_option("--checkpoint", source.checkpoint,
                    "A checkpoint, or a run's folder for its latest");
  group->add_option("--config", source.config, "TOML file whose model.init_from has the weights");
  group->require_option(1);
  line.add_option("--set", source.overrides,
                  "section.key=value, over what was saved or the file says; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace zerolab::app
