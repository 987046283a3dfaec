#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <system_error>

#include "apps/train_gpt/commands/commands.h"
#include "framework/core/error.h"

namespace zerolab::app {
namespace {

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

}  // namespace

void sample_command(const SavedModel::Source& source, const SampleCommand& command) {
  const std::string prompt = read_prompt(command.prompt);
  const SavedModel saved(source);
  const int64_t length = std::ssize(saved.tokenizer().encode(prompt));
  const int64_t block_size = saved.config().model.block_size;
  if (length > block_size) {
    fmt::print(stderr, "the prompt has {} tokens; the model sees the last {} (block_size)\n",
               length, block_size);
  }
  const auto begin = std::chrono::steady_clock::now();
  bool read = print(prompt);
  generate(saved.model(), saved.tokenizer(), prompt, command.generate,
           [&](std::string_view text) { return read = read && print(text); });
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  if (read && print("\n")) {
    fmt::print(stderr, "{} tokens in {:.2f} s: {:.0f} tokens/s\n", command.generate.tokens,
               time.count(), static_cast<double>(command.generate.tokens) / time.count());
  }
}

}  // namespace zerolab::app
