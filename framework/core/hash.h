#pragma once

#include <cstdint>
#include <string_view>

namespace zerolab {

/// FNV-1a over the bytes of `text`.
inline uint64_t hash_of(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char letter : text) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
  }
  return hash;
}

}  // namespace zerolab
