#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "framework/file/durable_file.h"

namespace zerolab::data {

/// Writes tokens as llm.c shards `shard_000000.bin`, `shard_000001.bin` and so on in a folder. A
/// shard has its name only once it is whole and on the disk.
class ShardWriter {
 public:
  /// `next` is the number of the first shard that is written. Throws `Error` unless 1 <=
  /// tokens_per_shard < 2^31, which its header counts with.
  ShardWriter(std::filesystem::path folder, int64_t tokens_per_shard, int64_t next);

  /// Writes as many of `tokens`, each in [0, 65536), as this shard has room for, and returns how
  /// many.
  size_t append(std::span<const int32_t> tokens);
  bool is_full() const { return num_tokens_ == tokens_per_shard_; }
  /// Tokens of the shard that is not finished.
  int64_t num_tokens() const { return num_tokens_; }

  /// Completes this shard; the next token begins another.
  void finish_shard();
  /// The number of the shard that is not finished: so many are, with those there were.
  int64_t next() const { return next_; }

 private:
  const std::filesystem::path folder_;
  const int64_t tokens_per_shard_;
  int64_t next_;
  int64_t num_tokens_ = 0;
  std::optional<DurableFile> file_;
};

}  // namespace zerolab::data
