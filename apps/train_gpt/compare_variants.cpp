#include "apps/train_gpt/compare_variants.h"

#include <algorithm>
#include <filesystem>

#include "apps/train_gpt/engine_options.h"
#include "framework/core/error.h"

namespace zerolab::app {

std::vector<Variant> stage_variants(const std::vector<int>& stages) {
  std::vector<Variant> variants;
  for (const int stage : stages) {
    if (std::count(stages.begin(), stages.end(), stage) > 1) {
      throw ConfigError("compare", fmt::format("--stages names stage {} twice; expected each once: "
                                               "both runs would write the same log",
                                               stage));
    }
    variants.push_back({fmt::format("stage-{}", stage), {fmt::format("zero.stage={}", stage)}});
  }
  return variants;
}

std::vector<Variant> reduction_variants() {
  const auto variant = [](std::string folder, int stage, bool reduce_scatter,
                          std::string_view layout) {
    return Variant{
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

RunConfig config_of(const RunConfig& config, const Variant& variant) {
  RunConfig own = config;
  for (const std::string& setting : variant.settings) {
    apply_override(own, setting);
  }
  require_engine_can(own);
  own.run.out_dir = std::filesystem::path(config.run.out_dir) / config.run.name;
  own.run.name = variant.folder;
  return own;
}

std::string_view name_of(zero::Reduction reduction) {
  switch (reduction) {
    case zero::Reduction::kAllReduce:
      return "all-reduce";
    case zero::Reduction::kReduceScatter:
      return "reduce-scatter";
    case zero::Reduction::kReduceToOwner:
      return "per-owner reduce";
  }
  return "";
}

}  // namespace zerolab::app
