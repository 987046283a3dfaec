#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/parallel_encoder.h"
#include "data/tokenizer.h"

namespace zerolab::app {

inline constexpr const char* kStandardInput = "-";  ///< the input's name
inline constexpr const char* kPrepareStateFile = "prepare.json";

/// What the shards of `train-gpt prepare` are made of, and how far they are: the file
/// `kPrepareStateFile` beside them.
struct PrepareState {
  struct Input {
    std::string path;  ///< absolute; "-": standard input
    int64_t bytes = 0;
    int64_t modified = 0;  ///< nanoseconds since 1970
    bool operator==(const Input&) const = default;
  };

  std::string tokenizer;
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0;  ///< of the bytes of all tokens
  int64_t shard_tokens = 0;
  std::vector<Input> inputs;

  int64_t shards = 0;       ///< that are finished
  int64_t tokens = 0;       ///< in them
  data::TextPosition next;  ///< of the first token after them
  bool complete = false;

  /// Throws `ConfigError` that names what differs, where the shards of this state are not those
  /// that `wanted` asks for.
  void require_same_result(const PrepareState& wanted) const;

  /// Puts the file in place of the older one, durably.
  void save(const std::filesystem::path& path) const;
  /// Throws `Error` if it is no such file.
  static PrepareState load(const std::filesystem::path& path);
};

uint64_t vocab_hash(const data::Tokenizer& tokenizer);

/// Path, size and time of a file, which must be a regular one.
PrepareState::Input describe_input(const std::string& path);

}  // namespace zerolab::app
