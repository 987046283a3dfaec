#pragma once

#include <memory>

#include "framework/core/backend.h"

namespace zerolab {

/// How fast the device is that a dry run models; what is 0 takes no time.
struct ModelledSpeed {
  double flops_per_s = 0.0;  ///< of matrix products
  double bytes_per_s = 0.0;  ///< read and written in memory
};

/// Computes nothing and holds no memory, but counts every byte in the ledger: a dry run. Its
/// streams are modelled (core/modelled_stream.h): a matrix product takes the longer of its
/// operations and its passes over memory, every other kernel its passes. `imitated` tells the
/// workspaces and outlives the result.
std::unique_ptr<Backend> make_meta_backend(const Backend& imitated,
                                           const ModelledSpeed& speed = {});

}  // namespace zerolab
