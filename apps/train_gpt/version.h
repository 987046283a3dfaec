#pragma once

namespace zerolab::app {

/// Stands in every log, so that it explains itself.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace zerolab::app
