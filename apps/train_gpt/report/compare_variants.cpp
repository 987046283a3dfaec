#include "apps/train_gpt/report/compare_variants.h"

#include <set>

#include "apps/train_gpt/setup/resolve_config.h"
#include "framework/core/error.h"

namespace zerolab::app {

std::vector<ComparedVariant> stage_variants(const std::vector<int>& stages) {
  std::vector<ComparedVariant> variants;
  for (const int stage : stages) {
    variants.push_back({fmt::format("stage-{}", stage), {fmt::format("zero.stage={}", stage)}});
  }
  return variants;
}

std::vector<ComparedVariant> precision_variants(const std::vector<std::string>& precisions) {
  std::vector<ComparedVariant> variants;
  for (const std::string& precision : precisions) {
    variants.push_back({precision, {"train.precision=" + precision}});
  }
  return variants;
}

std::vector<ComparedVariant> reduction_variants() {
  const auto variant = [](std::string folder, int stage, bool reduce_scatter,
                          std::string_view layout) {
    return ComparedVariant{
        std::move(folder),
        {fmt::format("zero.stage={}", stage), fmt::format("zero.reduce_scatter={}", reduce_scatter),
         fmt::format("zero.layout={}", layout)}};
  };
  return {variant("ddp", 0, true, "bucketed"),
          variant("zero-1-all-reduce", 1, false, "bucketed"),
          variant("zero-1-per-owner-reduce", 1, true, "contiguous"),
          variant("zero-1-reduce-scatter", 1, true, "bucketed"),
          variant("zero-2-per-owner-reduce", 2, true, "contiguous"),
          variant("zero-2-reduce-scatter", 2, true, "bucketed")};
}

std::vector<RunConfig> configs_of(const std::filesystem::path& file,
                                  const std::vector<std::string>& overrides,
                                  const std::vector<ComparedVariant>& variants) {
  std::vector<RunConfig> configs;
  std::set<std::string> folders;
  for (const ComparedVariant& variant : variants) {
    if (!folders.insert(variant.folder).second) {
      throw ConfigError("compare",
                        fmt::format("{} is named twice; expected each once: both runs would write "
                                    "the same log",
                                    variant.folder));
    }
    std::vector<std::string> settings = overrides;
    settings.insert(settings.end(), variant.settings.begin(), variant.settings.end());
    RunConfig& config = configs.emplace_back(load_config(file, settings));
    config.run.out_dir = std::filesystem::path(config.run.out_dir) / config.run.name;
    config.run.name = variant.folder;
  }
  return configs;
}

}  // namespace zerolab::app
