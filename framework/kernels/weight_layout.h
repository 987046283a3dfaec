#pragma once

#include <cstdint>

namespace zerolab {

/// How a weight matrix lies in memory: [in, out] as in GPT-2's Conv1D, or [out, in] as a tied
/// embedding.
enum class WeightLayout : uint8_t { kInOut, kOutIn };

}  // namespace zerolab
