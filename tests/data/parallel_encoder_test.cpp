#include "data/parallel_encoder.h"

#include <gtest/gtest.h>

#include <random>

#include "framework/core/error.h"
#include "tests/data/bpe_files.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

using Tokens = std::vector<int32_t>;

/// A token and where it stands.
using Placed = std::tuple<uint64_t, uint64_t, uint64_t, int32_t>;

std::vector<Placed> encode(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                           int threads, size_t block_bytes) {
  std::vector<Placed> placed;
  ParallelEncoder encoder(tokenizer, threads,
                          [&](TextPosition at, std::span<const int32_t> tokens) {
                            for (const int32_t token : tokens) {
                              placed.emplace_back(at.text, at.offset, at.skip++, token);
                            }
                          });
  for (size_t i = 0; i < texts.size(); ++i) {
    size_t left = 0;
    size_t offset = 0;
    for (bool last = false; !last;) {
      const std::string_view part = std::string_view(texts[i]).substr(offset, left + block_bytes);
      last = offset + part.size() == texts[i].size();
      left = encoder.push(i, offset, part, last);
      offset += part.size() - left;
    }
  }
  encoder.finish();
  return placed;
}

Tokens tokens_of(const std::vector<Placed>& placed) {
  Tokens tokens;
  for (const Placed& token : placed) {
    tokens.push_back(std::get<3>(token));
  }
  return tokens;
}

/// Words, some far longer than a block, in one text beside an empty and a short one.
std::vector<std::string> texts() {
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 300; ++i) {
    text += i % 2 == 0 ? " over" : "'ll \u3000";
    text.append(i % 40 == 0 ? 400 : random() % 4, "a b\n"[random() % 4]);
  }
  return {text, "", " the fox"};
}

TEST(ParallelEncoder, GivesTheTokensOfOneThreadWhateverTheBlocks) {
  const auto tokenizer = make_tokenizer("gpt2", {}, kSmallVocabulary);
  const int32_t end = tokenizer->end_of_text().value();
  Tokens expected;
  for (const std::string& text : texts()) {
    const Tokens tokens = tokenizer->encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(end);
  }
  expected.pop_back();
  for (const int threads : {1, 2, 5}) {
    for (const size_t block_bytes : {1, 7, 64, 100'000}) {
      EXPECT_EQ(tokens_of(encode(*tokenizer, texts(), threads, block_bytes)), expected)
          << threads << " threads, blocks of " << block_bytes;
    }
  }
}

/// What `train-gpt prepare --resume` rests on.
TEST(ParallelEncoder, SaysWhereAnEncodingCanGoOn) {
  const auto tokenizer = make_tokenizer("gpt2", {}, kSmallVocabulary);
  const std::vector<std::string> all = texts();
  const std::vector<Placed> placed = encode(*tokenizer, all, 3, 50);
  for (size_t i = 0; i < placed.size(); i += 13) {
    const auto& [text, offset, skip, token] = placed[i];
    Tokens rest;
    ParallelEncoder encoder(*tokenizer, 2, [&](TextPosition, std::span<const int32_t> tokens) {
      rest.insert(rest.end(), tokens.begin(), tokens.end());
    });
    for (uint64_t t = text; t < all.size(); ++t) {
      const uint64_t begin = t == text ? offset : 0;
      encoder.push(t, begin, std::string_view(all[t]).substr(begin), true);
    }
    encoder.finish();
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(skip));
    const Tokens expected =
        tokens_of({placed.begin() + static_cast<std::ptrdiff_t>(i), placed.end()});
    ASSERT_EQ(rest, expected) << "from token " << i;
  }
}

TEST(ParallelEncoder, PassesOnWhatAThreadThrows) {
  const std::array<std::string_view, 1> vocabulary = {"ab"};
  const auto tokenizer = make_tokenizer("char", vocabulary);
  const std::string message =
      message_of<Error>([&] { encode(*tokenizer, {std::string(100, 'a') + "Z"}, 4, 8); });
  EXPECT_NE(message.find("got 0x5a"), std::string::npos) << message;
}

}  // namespace
}  // namespace zerolab::data
