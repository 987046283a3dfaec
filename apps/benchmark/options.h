#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/gpt.h"

namespace zerolab::bench {

/// GPT-2's smallest model.
inline GptConfig model_124m() { return {}; }
/// Six layers over the 65 characters of a text.
inline GptConfig model_10m() {
  return {.n_layer = 6, .n_head = 6, .n_embd = 384, .block_size = 256, .vocab_size = 65};
}

int num_cores();
/// Of one of `ranks` ranks that share the cores.
int threads_of_a_rank(int ranks);

/// An option that counts something, from 1 on.
template <typename Integer>
void add_count(CLI::App& line, const std::string& name, Integer& value, const std::string& help) {
  line.add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
}

/// --json: the file that `write_result` writes.
void add_json(CLI::App& line, std::string& path);
/// Writes `result` as the file at `path`; nothing where that is empty. Throws `Error` when it
/// cannot.
void write_result(const std::string& path, const nlohmann::json& result);

}  // namespace zerolab::bench
