#include "checkpoint/checksum.h"

#include <fmt/core.h>
#include <xxhash.h>

namespace zerolab::checkpoint {

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

}  // namespace zerolab::checkpoint
