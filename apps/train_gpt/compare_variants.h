#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/train_gpt/config.h"
#include "zero/options.h"

namespace zerolab::app {

/// One column of a comparison: what it sets over the configuration, as `--set` would.
struct Variant {
  std::string folder;  ///< of its log, in <out_dir>/<name>
  std::vector<std::string> settings;
};

/// The configuration under each of `stages`; throws `ConfigError` where one is named twice.
std::vector<Variant> stage_variants(const std::vector<int>& stages);

/// DDP, the first ZeRO-1, and ZeRO-1 and ZeRO-2 with a reduction to each owner and with a
/// reduce-scatter.
std::vector<Variant> reduction_variants();

/// The variant's own configuration; throws `ConfigError` for what the engine cannot do.
RunConfig config_of(const RunConfig& config, const Variant& variant);

/// "all-reduce", "reduce-scatter", "per-owner reduce".
std::string_view name_of(zero::Reduction reduction);

}  // namespace zerolab::app
