#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// One column of a comparison: what it sets over the configuration, as `--set` would.
struct ComparedVariant {
  std::string folder;  ///< of its log, in <out_dir>/<name>
  std::vector<std::string> settings;
};

/// The configuration under each of `stages`.
std::vector<ComparedVariant> stage_variants(const std::vector<int>& stages);

/// The configuration in each of `precisions`: fp32, bf16, fp16.
std::vector<ComparedVariant> precision_variants(const std::vector<std::string>& precisions);

/// DDP, the first ZeRO-1, and ZeRO-1 and ZeRO-2 with a reduction to each owner and with a
/// reduce-scatter.
std::vector<ComparedVariant> reduction_variants();

/// Each variant's own configuration: the file, the overrides, then its settings. Throws
/// `ConfigError` for what they cannot be, and where two variants are the same.
std::vector<RunConfig> configs_of(const std::filesystem::path& file,
                                  const std::vector<std::string>& overrides,
                                  const std::vector<ComparedVariant>& variants);

}  // namespace zerolab::app
