#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace zerolab::data {

static_assert(std::endian::native == std::endian::little, "shards lie on disk as in memory");

/// What an llm.c shard of GPT-2's tokens begins with, 1,024 bytes.
struct ShardHeader {
  static constexpr int32_t kMagic = 20240520;
  static constexpr int32_t kVersion = 1;

  int32_t magic = kMagic;
  int32_t version = kVersion;
  int32_t num_tokens = 0;
  std::array<int32_t, 253> zeros = {};
};
static_assert(sizeof(ShardHeader) == 1024);

}  // namespace zerolab::data
