#include "data/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "data/gpt2_words.h"
#include "framework/core/error.h"
#include "tests/data/bpe_files.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

using Tokens = std::vector<int32_t>;

const Tokenizer& small() {
  static const auto tokenizer = make_tokenizer("gpt2", {}, kSmallVocabulary);
  return *tokenizer;
}

Tokens encode_in_parts(const Tokenizer& tokenizer, const std::vector<std::string_view>& parts) {
  Tokens tokens;
  const auto stream = tokenizer.stream();
  for (const std::string_view part : parts) {
    stream->push(part, tokens);
  }
  stream->finish(tokens);
  return tokens;
}

/// Every line of a file of {"text", "ids"}, both ways.
void expect_lines(const Tokenizer& tokenizer, const std::string& path, size_t least) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    const nlohmann::json expected = nlohmann::json::parse(line);
    const auto text = expected.at("text").get<std::string>();
    const auto ids = expected.at("ids").get<Tokens>();
    EXPECT_EQ(tokenizer.encode(text), ids) << line;
    EXPECT_EQ(tokenizer.decode(ids), text) << line;
  }
  EXPECT_GE(lines, least);
}

TEST(BpeTokenizer, GivesTheTokensOfGpt2sAlgorithm) {
  EXPECT_EQ(small().name(), "gpt2");
  expect_lines(small(), std::string(kSmallVocabulary) + "/expected.jsonl", 19);
}

TEST(BpeTokenizer, GivesGpt2sTokens) {
  const std::string gpt2 = kGpt2Vocabulary;
  // encoder.json numbers the bytes, then what each merge makes, then the end of text.
  std::ifstream lines(gpt2 + "/vocab.bpe");
  std::string merge;
  std::getline(lines, merge);  // the version
  std::vector<std::string> symbols;
  while (std::getline(lines, merge)) {
    symbols.push_back(merge.erase(merge.find(' '), 1));
  }
  symbols.emplace_back("<|endoftext|>");
  const TempDir folder;
  std::filesystem::copy(gpt2 + "/vocab.bpe", folder.path("vocab.bpe"));
  folder.write("encoder.json", encoder_json(symbols));
  const auto tokenizer = make_tokenizer("gpt2", {}, folder.path(""));
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_text(), 50256);
  expect_lines(*tokenizer, gpt2 + "/expected.jsonl", 81);
}

TEST(BpeTokenizer, KeepsEndOfTextApartFromText) {
  const int32_t end = small().end_of_text().value();
  EXPECT_EQ(end, small().vocab_size() - 1);
  EXPECT_EQ(small().decode(Tokens{end}), "<|endoftext|>");
  const Tokens tokens = small().encode("a<|endoftext|>b");
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), end), 0);
  EXPECT_EQ(small().decode(tokens), "a<|endoftext|>b");
}

TEST(BpeTokenizer, BringsAnyBytesBack) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string text(random() % 200, '\0');
    for (char& c : text) {
      c = static_cast<char>(round % 2 == 0 ? random() : 0x80 | random() % 0x60);
    }
    EXPECT_EQ(small().decode(small().encode(text)), text);
  }
}

TEST(BpeTokenizer, RefusesATokenOutsideItsVocabulary) {
  EXPECT_THROW(small().decode(Tokens{static_cast<int32_t>(small().vocab_size())}), Error);
  EXPECT_THROW(small().decode(Tokens{-1}), Error);
}

TEST(BpeTokenizer, GivesTheSameTokensHoweverATextIsCut) {
  const std::string text =
      "We'll  over\n\n\n the\t'r 're 'v 've\u3000\u3000x \u65e5\u672c\u8a9e\xe6\x97 \xf0\x9f\x99 "
      "\U0001F642 the 19  84 over  \xff\xfe'l'll   ";
  const std::string_view all = text;
  const Tokens expected = small().encode(text);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    ASSERT_EQ(encode_in_parts(small(), {all.substr(0, cut), all.substr(cut)}), expected) << cut;
    for (size_t second = cut; second <= text.size(); ++second) {
      ASSERT_EQ(encode_in_parts(small(), {all.substr(0, cut), all.substr(cut, second - cut),
                                          all.substr(second)}),
                expected)
          << cut << ", " << second;
    }
  }
  std::vector<std::string_view> bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    bytes.push_back(all.substr(at, 1));
  }
  EXPECT_EQ(encode_in_parts(small(), bytes), expected);
}

TEST(BpeTokenizer, CutsAWordBeyondTheLimitAtTheSamePlaceInAStream) {
  const std::string text = "x" + std::string(2 * kMaxWordBytes + 5, ' ') + "over";
  const std::string_view all = text;
  const Tokens expected = small().encode(text);
  EXPECT_EQ(small().decode(expected), text);
  for (const size_t cut :
       {size_t{1}, kMaxWordBytes, kMaxWordBytes + 1, kMaxWordBytes + 2, 2 * kMaxWordBytes + 3}) {
    EXPECT_EQ(encode_in_parts(small(), {all.substr(0, cut), all.substr(cut)}), expected) << cut;
  }
}

TEST(BpeTokenizer, BeginsAnotherTextAfterAnEnd) {
  const auto stream = small().stream();
  Tokens tokens;
  for (int round = 0; round < 2; ++round) {
    tokens.clear();
    stream->push("the ", tokens);
    stream->finish(tokens);
    EXPECT_EQ(tokens, small().encode("the "));
  }
}

/// encoder.py's loop, as it stands: quadratic, and plainly right.
std::vector<uint16_t> merge_plainly(const BpeVocabulary& vocabulary, std::string_view word) {
  std::vector<uint16_t> tokens;
  for (const char c : word) {
    tokens.push_back(vocabulary.token_of_byte(static_cast<uint8_t>(c)));
  }
  for (;;) {
    BpeVocabulary::Merge best;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const BpeVocabulary::Merge merge = vocabulary.merge_of(tokens[i], tokens[i + 1]);
      best = merge.rank < best.rank ? merge : best;
    }
    if (best.rank == BpeVocabulary::kNoMerge) {
      return tokens;
    }
    std::vector<uint16_t> merged;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool both =
          i + 1 < tokens.size() && vocabulary.merge_of(tokens[i], tokens[i + 1]).rank == best.rank;
      merged.push_back(both ? best.token : tokens[i]);
      i += both ? 1 : 0;
    }
    tokens = std::move(merged);
  }
}

/// Merges in an order that no training gives, where a merge makes pairs of a lower rank.
TEST(BpeMerger, MergesRoundByRound) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::string> symbols = {"a", "b", "c"};
    std::vector<std::string> merges;
    std::map<std::string, bool> seen;
    for (int i = 0; i < 30; ++i) {
      const std::string left = symbols[random() % symbols.size()];
      const std::string right = symbols[random() % symbols.size()];
      if (left.size() + right.size() <= 8 && !seen[left + " " + right]) {
        seen[left + " " + right] = true;
        merges.push_back(left + " " + right);
        symbols.push_back(left + right);
      }
    }
    std::shuffle(merges.begin(), merges.end(), random);
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    const BpeVocabulary vocabulary(encoder_json(symbols), merge_lines(merges));
    BpeMerger merger(vocabulary);
    for (int i = 0; i < 50; ++i) {
      std::string word(1 + random() % 60, 'a');
      for (char& c : word) {
        c = static_cast<char>('a' + random() % 3);
      }
      const std::span<const uint16_t> tokens = merger.merge(word);
      ASSERT_EQ(std::vector<uint16_t>(tokens.begin(), tokens.end()),
                merge_plainly(vocabulary, word))
          << word;
    }
  }
}

}  // namespace
}  // namespace zerolab::data
