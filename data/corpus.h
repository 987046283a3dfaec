#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/mapped_file.h"

namespace zerolab::data {

/// What a corpus holds: text that a tokenizer must encode, or `.bin` files of uint16 tokens.
enum class CorpusKind : uint8_t { kText, kTokens };

/// The files that `[data] path` names: in the order of its entries, and the matches of one pattern
/// sorted by byte value. A `path` that is the name of a file is that file, else it is a glob(3)
/// pattern. Throws `ConfigError` if the list is empty, an entry matches nothing, or a file is
/// named twice.
std::vector<std::string> resolve_paths(std::span<const std::string> patterns);

/// The memory-mapped files of `[data] path`, immutable. A name that ends in `.bin` is a shard,
/// any other a text.
///
/// A shard is a `ShardHeader`, then one little-endian uint16 a token. A `.bin` file of an even size
/// that does not begin with the magic of an llm.c file is nanoGPT's kind, tokens without a header.
/// No text of GPT-2's tokens begins with such a magic: its first half is above 50256.
class Corpus {
 public:
  /// Throws `ConfigError` if the list is empty, a pattern matches nothing, a file is named
  /// twice, texts and shards are mixed, or all is empty; `Error` where a file cannot be read, a
  /// shard's header does not fit its file, or a file without a header has an odd size or is text.
  explicit Corpus(std::span<const std::string> patterns);

  CorpusKind kind() const { return kind_; }
  const std::vector<std::string>& paths() const { return paths_; }

  /// One view a file, valid while the corpus (or the one it was moved to) lives; none where the
  /// corpus is of the other kind.
  std::vector<std::string_view> texts() const;
  const std::vector<std::span<const uint16_t>>& shards() const { return shards_; }

 private:
  std::vector<std::string> paths_;
  std::vector<MappedFile> files_;
  std::vector<std::span<const uint16_t>> shards_;  // within files_
  CorpusKind kind_ = CorpusKind::kText;
};

}  // namespace zerolab::data
