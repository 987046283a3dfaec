#pragma once

#include <memory>

#include "apps/benchmark/op_profile.h"
#include "framework/tensor/backend.h"

namespace zerolab::bench {

/// A backend that computes as `inner` and writes down what each kernel took, at its shapes. Its
/// kernels must run at once (immediate streams). `inner` and `profile` outlive it.
std::unique_ptr<Backend> make_profiled_backend(Backend& inner, OpProfile& profile);

}  // namespace zerolab::bench
