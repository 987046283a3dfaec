#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>

#include "apps/train_gpt/commands/command.h"
#include "apps/train_gpt/commands/shared_options.h"
#include "apps/train_gpt/inference/generate.h"
#include "apps/train_gpt/inference/saved_model.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

struct SampleOptions {
  SavedModel::Source source;
  std::string prompt;  ///< "-": what `stdin` has
  GenerateOptions generate;
};

/// At once; false where nobody reads any more.
bool print(std::string_view text) {
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written && errno != EPIPE) {
    fail("sample", "cannot write the text; {}", std::generic_category().message(errno));
  }
  return written;
}

std::string read_prompt(const std::string& prompt) {
  return prompt == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : prompt;
}

/// Prints the prompt and its continuation, each character as soon as it is made, on `stdout`, and
/// on `stderr` how fast. Ends without an error where nobody reads on.
void sample(const SampleOptions& options) {
  const std::string prompt = read_prompt(options.prompt);
  const SavedModel saved(options.source);
  const int64_t length = std::ssize(saved.tokenizer().encode(prompt));
  const int64_t block_size = saved.config().model.block_size;
  if (length > block_size) {
    fmt::print(stderr, "the prompt has {} tokens; the model sees the last {} (block_size)\n",
               length, block_size);
  }
  const auto begin = std::chrono::steady_clock::now();
  bool read = print(prompt);
  generate(saved.model(), saved.tokenizer(), prompt, options.generate,
           [&](std::string_view text) { return read = read && print(text); });
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  if (read && print("\n")) {
    fmt::print(stderr, "{} tokens in {:.2f} s: {:.0f} tokens/s\n", options.generate.tokens,
               time.count(), static_cast<double>(options.generate.tokens) / time.count());
  }
}

}  // namespace

Command add_sample(CLI::App& program) {
  const auto options = std::make_shared<SampleOptions>();
  CLI::App* line = program.add_subcommand("sample", "Let a trained model continue a text");
  add_model_source(*line, options->source);
  line->add_option("--prompt", options->prompt,
                   "The text; - reads it from standard input; empty: a new text");
  GenerateOptions& generate = options->generate;
  line->add_option("--tokens", generate.tokens, "How many tokens to add")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  line->add_option("--temperature", generate.sampling.temperature,
                   "Divides the logits; 0: always the likeliest token")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  line->add_option("--top-k", generate.sampling.top_k, "Draw among the k likeliest; 0: all")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}))
      ->capture_default_str();
  line->add_option("--top-p", generate.sampling.top_p,
                   "Of those, draw among the likeliest that reach this probability")
      ->check(CLI::Range(1e-9, 1.0))
      ->capture_default_str();
  line->add_option("--seed", generate.sampling.seed, "The same seed gives the same text")
      ->capture_default_str();
  line->add_flag("!--no-cache", generate.use_cache,
                 "Compute all again for each token, without a key-value cache: to compare");
  return {line, [options] {
            sample(*options);
            return 0;
          }};
}

}  // namespace zerolab::app
