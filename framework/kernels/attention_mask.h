#pragma once

#include <cstdint>

namespace zerolab {

/// Which positions a query of self-attention sees: those up to its own, or all.
enum class AttentionMask : uint8_t { kCausal, kNone };

}  // namespace zerolab
