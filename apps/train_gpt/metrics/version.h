#pragma once

namespace zerolab::app {

/// Stands in every log, so that it explains itself.
inline constexpr const char* kVersion = "0.1.0";

/// Of the source that was built, with "-dirty" at its end if files had been changed; "unknown"
/// where it was no checkout.
extern const char* const kCommit;

}  // namespace zerolab::app
