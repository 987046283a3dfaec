#pragma once

#include <cstdint>
#include <memory>

#include "apps/train_gpt/config.h"
#include "framework/core/backend.h"

namespace zerolab::app {

/// Bytes of the host's memory, or the container's limit where that is less.
int64_t total_memory();

/// Decides what `[launch]` leaves open by what the machine has. Throws `ConfigError` that says what
/// is missing for `launch.device`.
void resolve_launch(RunConfig& config);

/// The backend that `[launch]`, resolved, names.
std::unique_ptr<Backend> make_backend(const LaunchSection& launch);

}  // namespace zerolab::app
