#pragma once

#include <memory>
#include <string>

#include "framework/tensor/backend.h"

namespace zerolab {

/// The fast CPU: matrix products by oneDNN, the rest by vectorised OpenMP loops; fp32, bf16 and
/// fp16.
bool onednn_is_available();
/// "2.6.0" of the library that is linked; empty where it was not built.
std::string onednn_version();
/// Throws `Error` if it was not built.
std::unique_ptr<Backend> make_onednn_backend();

}  // namespace zerolab
