#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace zerolab::app {

struct PrepareOptions {
  std::vector<std::string> inputs;  ///< text files and glob patterns, or "-" alone: standard input
  std::filesystem::path out;        ///< folder for the shards
  std::string tokenizer = "gpt2";
  std::string vocab;  ///< folder with encoder.json and vocab.bpe; gpt2 needs it
  int threads = 1;
  int64_t shard_tokens = 100'000'000;
  bool resume = false;  ///< go on where a stopped or killed one was
};

/// `train-gpt prepare`: turns texts into llm.c shards and shows how far it is. The shards do not
/// depend on the number of threads, nor on whether it was stopped in between. A vocabulary with an
/// end of text has it between two inputs. Throws `ConfigError` if the inputs or options are
/// wrong, or not those of the shards that are there, and `Error` if a file cannot be read or
/// written; finished shards stay. Returns the exit status: 1 where `stop` ended it early.
int prepare_command(const PrepareOptions& options, const std::atomic<bool>& stop);

}  // namespace zerolab::app
