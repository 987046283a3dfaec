#pragma once

#include <memory>

#include "framework/core/backend.h"

namespace zerolab {

/// Computes nothing and holds no memory, but counts every byte in the ledger: a dry run. `imitated`
/// tells the workspaces and outlives the result.
std::unique_ptr<Backend> make_meta_backend(const Backend& imitated);

}  // namespace zerolab
