#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zerolab::checkpoint {

/// 64-bit XXH3: finds damage, proves nothing against an enemy.
uint64_t checksum_of(std::span<const std::byte> bytes);
inline uint64_t checksum_of(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}
/// Sixteen hexadecimal digits.
std::string checksum_text(uint64_t checksum);

}  // namespace zerolab::checkpoint
