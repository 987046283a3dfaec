#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "framework/core/error.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

using Tokens = std::vector<int32_t>;

std::unique_ptr<const Tokenizer> make_char(std::string_view text) {
  return make_tokenizer("char", std::array{text});
}

TEST(ByteTokenizer, EncodesEveryByteAsItself) {
  const auto tokenizer = make_tokenizer("byte", {});
  EXPECT_EQ(tokenizer->name(), "byte");
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->encode(std::string_view("a\0\xff", 3)), (Tokens{97, 0, 255}));
  Tokens all(256);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(tokenizer->encode(tokenizer->decode(all)), all);
  EXPECT_TRUE(tokenizer->encode("").empty());
}

TEST(CharTokenizer, NumbersTheSortedDistinctBytes) {
  const auto tokenizer = make_char("hello\n");
  EXPECT_EQ(tokenizer->name(), "char");
  EXPECT_EQ(tokenizer->vocab_size(), 5);  // \n e h l o
  EXPECT_EQ(tokenizer->encode("hello\n"), (Tokens{2, 1, 3, 3, 4, 0}));
  EXPECT_EQ(tokenizer->decode(Tokens{4, 0, 2}), "o\nh");
}

TEST(CharTokenizer, SortsBytesAboveAsciiLast) {
  EXPECT_EQ(make_char("\xc3\xa9z")->encode("z\xa9\xc3"), (Tokens{0, 1, 2}));
}

TEST(CharTokenizer, TakesItsVocabularyFromAllTexts) {
  const std::array<std::string_view, 3> texts = {"ca", "", "b"};
  EXPECT_EQ(make_tokenizer("char", texts)->encode("abc"), (Tokens{0, 1, 2}));
}

TEST(CharTokenizer, IsMadeAgainFromItsDecodedVocabulary) {
  const auto first = make_char("some text");
  Tokens all(static_cast<size_t>(first->vocab_size()));
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(make_char(first->decode(all))->encode("text"), first->encode("text"));
}

TEST(CharTokenizer, NamesAByteOutsideItsVocabulary) {
  const std::string message = message_of<Error>([] { make_char("abc")->encode("aZ"); });
  EXPECT_NE(message.find("got 0x5a at offset 1"), std::string::npos) << message;
}

TEST(CharTokenizer, RefusesATokenOutsideItsVocabulary) {
  const auto tokenizer = make_char("abc");
  EXPECT_THROW(tokenizer->decode(Tokens{3}), Error);
  EXPECT_THROW(tokenizer->decode(Tokens{-1}), Error);
}

TEST(CharTokenizer, RefusesToStartWithoutText) {
  EXPECT_THROW(make_tokenizer("char", {}), ConfigError);
  EXPECT_THROW(make_char(""), ConfigError);
}

TEST(CharTokenizer, CountsTheOffsetOverTheWholeStream) {
  const auto tokenizer = make_char("abc");
  const auto stream = tokenizer->stream();
  Tokens tokens;
  stream->push("ab", tokens);
  EXPECT_EQ(tokens, (Tokens{0, 1}));
  const std::string message = message_of<Error>([&] { stream->push("cZ", tokens); });
  EXPECT_NE(message.find("at offset 3"), std::string::npos) << message;
}

TEST(TokenizerFactory, RefusesWhatItCannotMake) {
  const std::string unknown = message_of<ConfigError>([] { make_tokenizer("bytes", {}); });
  EXPECT_NE(unknown.find("got 'bytes', expected 'byte', 'char' or 'gpt2'"), std::string::npos)
      << unknown;
}

}  // namespace
}  // namespace zerolab::data
