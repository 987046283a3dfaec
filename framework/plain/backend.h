#pragma once

#include <memory>

#include "framework/tensor/backend.h"

namespace zerolab {

/// Readable single-threaded loops in fp32 and fp64, and for 16-bit elements: the oracle of every
/// other backend, and what the sanitizers run.
std::unique_ptr<Backend> make_plain_backend();

}  // namespace zerolab
