#pragma once

#include <string_view>

namespace zerolab::checkpoint {

/// The component that this folder's errors name.
inline constexpr std::string_view kComponent = "checkpoint";

}  // namespace zerolab::checkpoint
