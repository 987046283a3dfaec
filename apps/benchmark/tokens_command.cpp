#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "apps/benchmark/command.h"
#include "apps/benchmark/measured_variant.h"
#include "apps/benchmark/options.h"
#include "apps/train_gpt/text/text_table.h"
#include "data/gpt2_words.h"
#include "data/mapped_file.h"
#include "data/tokenizer.h"

namespace zerolab::bench {
namespace {

struct TokensCommand {
  std::string text;   ///< file that is encoded again and again
  std::string vocab;  ///< folder of GPT-2's encoder.json and vocab.bpe
  int rounds = 5;     ///< the median is printed; one before them warms up
  std::string json;   ///< file; empty: none
};

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

/// How fast one thread turns texts into GPT-2's tokens: the given one, and two that are made to be
/// slow. Beside it, how fast a thread finds the words of the text, and reads its bytes.
void run_tokens(const TokensCommand& command) {
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

  fmt::print("one thread, CPU time, {} rounds\n", command.rounds);
  std::vector<app::TableRow> table = {{"", "MB", "MB/s", "of read", "bytes/token"}};
  const auto rate = [](const Row& row) {
    return static_cast<double>(row.bytes) / median(row.seconds) / 1e6;
  };
  nlohmann::json records = nlohmann::json::array();
  for (const Row& row : rows) {
    const bool encodes = std::string_view(row.name).starts_with("encode");
    const double bytes_per_token = static_cast<double>(row.bytes) / static_cast<double>(row.count);
    table.push_back({row.name, fmt::format("{}", row.bytes / 1'000'000),
                     fmt::format("{:.1f}", rate(row)),
                     fmt::format("{:.2f}%", rate(row) / rate(rows[0]) * 100),
                     encodes ? fmt::format("{:.2f}", bytes_per_token) : ""});
    records.push_back({{"work", row.name}, {"bytes", row.bytes}, {"mb_per_s", rate(row)}});
  }
  fmt::print("{}", app::text_table(table, {app::kLeftColumn}));
  write_result(command.json,
               {{"command", "tokens"}, {"rounds", command.rounds}, {"rows", records}});
}

}  // namespace

Command add_tokens(CLI::App& program) {
  const auto command = std::make_shared<TokensCommand>();
  CLI::App* const line = program.add_subcommand(
      "tokens",
      "How fast one thread turns a text, repeated to 100 MB, into GPT-2's tokens, and two "
      "texts that are one long word;\n"
      "beside it, how fast it finds the text's words, and reads its bytes.");
  line->add_option("TEXT", command->text, "Text file")->required();
  line->add_option("--vocab", command->vocab, "Folder with GPT-2's encoder.json and vocab.bpe")
      ->required();
  add_count(*line, "--rounds", command->rounds, "Measured rounds, after one that warms up");
  add_json(*line, command->json);
  return {line, [command] { run_tokens(*command); }};
}

}  // namespace zerolab::bench
