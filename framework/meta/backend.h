#pragma once

#include <memory>

#include "framework/meta/modelled_speed.h"
#include "framework/tensor/backend.h"

namespace zerolab {

/// Computes nothing and holds no memory, but counts every byte in the ledger: a dry run. Its
/// streams are modelled (core/modelled_stream.h): a matrix product takes the longer of its
/// operations and its passes over memory, every other kernel its passes. `imitated` tells the
/// workspaces and outlives the result.
std::unique_ptr<Backend> make_meta_backend(const Backend& imitated,
                                           const ModelledSpeed& speed = {});

}  // namespace zerolab
