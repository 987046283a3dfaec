#pragma once

#include <filesystem>

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// Replaces the patterns of data.path, data.vocab and model.init_from by the absolute names of the
/// files that they name, so that the dumped configuration runs from any folder. Each is looked for
/// in `folder`, that of the configuration's file, then in the working directory. Throws
/// `ConfigError` where a pattern names none.
void find_inputs(RunConfig& config, const std::filesystem::path& folder);

}  // namespace zerolab::app
