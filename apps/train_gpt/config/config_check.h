#pragma once

#include "apps/train_gpt/config/config.h"

namespace zerolab::app {

/// Refuses keys that contradict each other, whatever the machine and the data are: `ConfigError`
/// with the place where one of them was set.
void check_sections(const RunConfig& config);

}  // namespace zerolab::app
