#pragma once

#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zerolab::data {

/// A vocabulary of 256 bytes, 120 merges and the end of text, made by make_vocab.py there.
constexpr const char* kSmallVocabulary = SOURCE_FOLDER "/tests/data/vocab";

/// GPT-2's merges, and texts with their tokens; see the README there.
constexpr const char* kGpt2Vocabulary = SOURCE_FOLDER "/tests/data/gpt2";

/// An encoder.json of all bytes and those of `symbols` that are longer.
inline std::string encoder_json(const std::vector<std::string>& symbols) {
  nlohmann::json numbers =
      nlohmann::json::parse(std::ifstream(std::string(kSmallVocabulary) + "/encoder.json"));
  for (auto entry = numbers.begin(); entry != numbers.end();) {
    entry = entry->get<int>() < 256 ? std::next(entry) : numbers.erase(entry);
  }
  for (const std::string& symbol : symbols) {
    numbers.emplace(symbol, numbers.size());
  }
  return numbers.dump();
}

/// A vocab.bpe of these lines.
inline std::string merge_lines(const std::vector<std::string>& merges) {
  return fmt::format("#version: 0.2\n{}\n", fmt::join(merges, "\n"));
}

}  // namespace zerolab::data
