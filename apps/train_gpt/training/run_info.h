#pragma once

#include "apps/train_gpt/metrics/records.h"

namespace zerolab::app {

/// What a log says of a run before its first step. `communicator` outlives the result.
RunInfo describe_run(const zero::Engine& engine, int64_t vocab_size, std::string_view communicator);

}  // namespace zerolab::app
