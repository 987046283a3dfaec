#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/core/error.h"

namespace zerolab::checkpoint {

/// `value` as an integer that it is. Throws `Error` for all else, which the JSON library would
/// convert, with undefined behaviour where a fraction is too large.
template <typename Integer>
Integer integer_of(const nlohmann::json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<int64_t>());
  require(fits, "checkpoint", "'{}' is no integer, or too large", value.dump());
  return value.get<Integer>();
}

}  // namespace zerolab::checkpoint
