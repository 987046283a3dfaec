#pragma once

#include <string_view>

namespace zerolab::checkpoint {

/// Who speaks in this folder's errors.
inline constexpr std::string_view kComponent = "checkpoint";

}  // namespace zerolab::checkpoint
