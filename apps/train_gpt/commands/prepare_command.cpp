#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/commands/prepare_shards.h"
#include "apps/train_gpt/commands/prepare_state.h"
#include "apps/train_gpt/commands/stop_signals.h"
#include "data/corpus.h"
#include "data/tokenizer.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

namespace fs = std::filesystem;

struct PrepareOptions {
  std::vector<std::string> inputs;  ///< text files and glob patterns, or "-" alone: standard input
  std::filesystem::path out;        ///< folder for the shards
  std::string tokenizer = "gpt2";
  std::string vocab;  ///< folder with encoder.json and vocab.bpe; gpt2 needs it
  int threads = 1;
  int64_t shard_tokens = 100'000'000;
  bool resume = false;  ///< go on where a stopped or killed one was
};

std::unique_ptr<const data::Tokenizer> tokenizer_of(const PrepareOptions& options,
                                                    const std::vector<std::string>& paths) {
  if (options.tokenizer != "char") {
    return data::make_tokenizer(options.tokenizer, {}, options.vocab);
  }
  if (paths.front() == kStandardInput) {
    throw ConfigError("prepare",
                      "the char tokenizer takes its vocabulary from the whole text first; got "
                      "standard input, expected files");
  }
  return data::make_tokenizer("char", data::Corpus(paths).texts());
}

std::vector<std::string> paths_of(const PrepareOptions& options) {
  const auto& inputs = options.inputs;
  if (std::ranges::find(inputs, kStandardInput) == inputs.end()) {
    return data::resolve_paths(inputs);
  }
  if (inputs.size() > 1) {
    throw ConfigError("prepare", "standard input (-) is an input of its own; got others beside it");
  }
  return inputs;
}

/// The state that the options ask for, before anything is done.
PrepareState new_state(const PrepareOptions& options, const std::vector<std::string>& paths,
                       const data::Tokenizer& tokenizer) {
  PrepareState state;
  state.tokenizer = options.tokenizer;
  state.vocab_size = tokenizer.vocab_size();
  state.vocab_hash = vocab_hash(tokenizer);
  state.shard_tokens = options.shard_tokens;
  for (const std::string& path : paths) {
    state.inputs.push_back(path == kStandardInput ? PrepareState::Input{.path = path}
                                                  : describe_input(path));
  }
  return state;
}

/// The state to go on from: that of the folder, or `wanted` in a folder without shards.
PrepareState begin(const PrepareOptions& options, PrepareState wanted) {
  const fs::path file = options.out / kPrepareStateFile;
  if (!fs::exists(file)) {
    fs::create_directories(options.out);
    for (const fs::directory_entry& entry : fs::directory_iterator(options.out)) {
      if (entry.path().extension() == ".bin") {
        throw ConfigError("prepare",
                          fmt::format("'{}' has .bin files of something else; got '{}', expected "
                                      "another folder",
                                      options.out.string(), entry.path().filename().string()));
      }
    }
    wanted.save(file);
    return wanted;
  }
  PrepareState state = PrepareState::load(file);
  if (!options.resume || wanted.inputs.front().path == kStandardInput) {
    throw ConfigError(
        "prepare",
        fmt::format("'{}' has shards of an earlier prepare; {}", options.out.string(),
                    options.resume ? "standard input cannot be read again: use another folder"
                                   : "use --resume to go on there, or another folder"));
  }
  state.require_same_result(wanted);
  return state;
}

/// Turns texts into llm.c shards and shows how far it is. The shards do not
/// depend on the number of threads, nor on whether it was stopped in between. A vocabulary with an
/// end of text has it between two inputs. Throws `ConfigError` if the inputs or options are
/// wrong, or not those of the shards that are there, and `Error` if a file cannot be read or
/// written; finished shards stay. Returns the exit status: 1 where `stop` ended it early.
int prepare(const PrepareOptions& options, const std::atomic<bool>& stop) {
  const std::vector<std::string> paths = paths_of(options);
  const std::unique_ptr<const data::Tokenizer> tokenizer = tokenizer_of(options, paths);
  PrepareState state = begin(options, new_state(options, paths, *tokenizer));
  if (!state.complete) {
    prepare_shards(options.out, *tokenizer, options.threads, state, stop);
  }
  fmt::print("{} tokens in {} shard(s): {}\n", state.tokens, state.shards,
             (options.out / "shard_*.bin").string());
  if (!state.complete) {
    fmt::print(stderr, "error: [prepare] stopped on request before the end; --resume goes on\n");
    return 1;
  }
  fmt::print("train on them with data.path and model.vocab_size = {}\n", state.vocab_size);
  return 0;
}

}  // namespace

Command add_prepare(CLI::App& program) {
  const auto options = std::make_shared<PrepareOptions>();
  CLI::App* line = program.add_subcommand(
      "prepare", "Turn texts into tokens: llm.c .bin shards, which data.path takes");
  line->add_option("INPUT", options->inputs,
                   "Text files or glob patterns, in this order; - alone: standard input")
      ->required();
  line->add_option("-o,--output", options->out, "Folder for the shards")->required();
  line->add_option("--tokenizer", options->tokenizer, "What a token is, as data.tokenizer")
      ->check(CLI::IsMember({"gpt2", "byte", "char"}))
      ->capture_default_str();
  line->add_option("--vocab", options->vocab, "Folder of gpt2's vocabulary, as data.vocab");
  options->threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  line->add_option("--threads", options->threads, "Threads that encode")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  line->add_option("--shard-tokens", options->shard_tokens, "Tokens of a shard")
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->capture_default_str();
  line->add_flag("--resume", options->resume, "Go on where a stopped or killed one was");
  return {line, [options] { return prepare(*options, stop_on_signals()); }};
}

}  // namespace zerolab::app
