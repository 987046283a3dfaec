#include "apps/benchmark/tokens_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "apps/benchmark/variant.h"
#include "data/gpt2_words.h"
#include "data/mapped_file.h"
#include "data/tokenizer.h"

namespace zerolab::bench {
namespace {

constexpr size_t kBytes = 100'000'000;  // far beyond any cache

/// Text after text until there are kBytes.
std::string repeated(std::string_view text) {
  std::string all;
  all.reserve(kBytes);
  while (!text.empty() && all.size() < kBytes) {
    all += text.substr(0, kBytes - all.size());
  }
  return all;
}

std::string random_letters(size_t size) {
  std::mt19937 random(1);
  std::string text(size, 'a');
  for (char& c : text) {
    c = static_cast<char>('a' + random() % 26);
  }
  return text;
}

uint64_t read_bytes(std::string_view text) {
  uint64_t sum = 0;
  for (size_t at = 0; at + sizeof(sum) <= text.size(); at += sizeof(sum)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof(word));
    sum += word;
  }
  return sum;
}

uint64_t count_words(std::string_view text) {
  uint64_t words = 0;
  for (size_t at = 0; at < text.size(); at = data::word_end(text, at)) {
    ++words;
  }
  return words;
}

/// In parts, as a file would come; the tokens are only counted.
uint64_t count_tokens(const data::Tokenizer& tokenizer, std::string_view text) {
  constexpr size_t kPart = 1 << 20;
  uint64_t count = 0;
  std::vector<int32_t> tokens;
  const auto stream = tokenizer.stream();
  for (; !text.empty(); text.remove_prefix(std::min(kPart, text.size()))) {
    stream->push(text.substr(0, kPart), tokens);
    count += tokens.size();
    tokens.clear();
  }
  stream->finish(tokens);
  return count + tokens.size();
}

}  // namespace

void run_tokens_command(const TokensCommand& command) {
  const auto tokenizer = data::make_tokenizer("gpt2", {}, command.vocab);
  const data::MappedFile file(command.text);
  const std::string text =
      repeated({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  const std::string letters = random_letters(kBytes / 10);
  const std::string one_letter(kBytes / 10, 'a');

  struct Row {
    const char* name;
    size_t bytes;
    std::function<uint64_t()> work;
    uint64_t count = 0;                ///< of tokens, or words
    std::vector<double> seconds = {};  ///< of CPU time, so that other programs matter less
  };
  std::vector<Row> rows = {
      {"read the text's bytes", text.size(), [&] { return read_bytes(text); }},
      {"find the text's words", text.size(), [&] { return count_words(text); }},
      {"encode the text", text.size(), [&] { return count_tokens(*tokenizer, text); }},
      {"encode random letters without a space", letters.size(),
       [&] { return count_tokens(*tokenizer, letters); }},
      {"encode one letter again and again", one_letter.size(),
       [&] { return count_tokens(*tokenizer, one_letter); }}};
  for (int round = 0; round <= command.rounds; ++round) {
    for (Row& row : rows) {
      const std::clock_t begin = std::clock();
      row.count = row.work();
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      if (round > 0) {
        row.seconds.push_back(seconds);
      }
    }
  }

  fmt::print("one thread, CPU time, {} rounds\n{:<40} {:>6} {:>9} {:>8} {:>12}\n", command.rounds,
             "", "MB", "MB/s", "of read", "bytes/token");
  const auto rate = [](const Row& row) {
    return static_cast<double>(row.bytes) / median(row.seconds) / 1e6;
  };
  nlohmann::json records = nlohmann::json::array();
  for (const Row& row : rows) {
    const bool encodes = std::string_view(row.name).starts_with("encode");
    const double bytes_per_token = static_cast<double>(row.bytes) / static_cast<double>(row.count);
    fmt::print("{:<40} {:>6} {:>9.1f} {:>7.2f}% {:>12}\n", row.name, row.bytes / 1'000'000,
               rate(row), rate(row) / rate(rows[0]) * 100,
               encodes ? fmt::format("{:.2f}", bytes_per_token) : "");
    records.push_back({{"work", row.name}, {"bytes", row.bytes}, {"mb_per_s", rate(row)}});
  }
  if (!command.json.empty()) {
    std::ofstream(command.json) << nlohmann::json{{"command", "tokens"},
                                                  {"rounds", command.rounds},
                                                  {"rows", records}}
                                       .dump(2)
                                << '\n';
  }
}

}  // namespace zerolab::bench
