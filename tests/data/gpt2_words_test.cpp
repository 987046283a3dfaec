#include "data/gpt2_words.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <gtest/gtest.h>
#include <pcre2.h>

#include <random>
#include <string>

#include "data/mapped_file.h"
#include "data/utf8.h"
#include "tests/data/test_files.h"

namespace zerolab::data {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = word_end(text, begin);
    words.push_back(text.substr(begin, end - begin));
  }
  return words;
}

/// GPT-2's pattern itself, run by PCRE2 on valid UTF-8.
std::vector<std::string_view> words_of_pcre2(std::string_view text) {
  // As \s, but for U+180E, which PCRE2 still counts as white space.
  static const std::string space =
      R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
  static const std::string pattern = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" + space +
                                     "\\p{L}\\p{N}]+|[" + space + "]+(?![^" + space + "])|[" +
                                     space + "]+";
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match);
  std::vector<std::string_view> words;
  for (at = 0; pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                           PCRE2_NO_UTF_CHECK, match, nullptr) > 0;
       at = range[1]) {
    words.push_back(text.substr(range[0], range[1] - range[0]));
  }
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return words;
}

/// Characters where the pattern's alternatives meet, and any others.
std::string random_text(std::mt19937& random, int length) {
  static const std::vector<std::string> kParts = {
      " ",      "  ",     "\n",     "\t",     "\r",         "'",    "'s",   "'re",
      "'ll",    "l",      "v",      "e",      "a",          "Zz",   "7",    "\u00e9",
      "\u00b2", "\u2167", "\u00a0", "\u2003", "_",          "-",    ".",    "\u3000",
      "\u65e5", "\u0301", "\u180e", "\u200d", "\U0001F642", "\x1c", "\x7f", "\u0085"};
  std::string text;
  for (int i = 0; i < length; ++i) {
    if (random() % 4 != 0) {
      text += kParts[random() % kParts.size()];
    } else {
      const char32_t code_point = random() % (random() % 2 == 0 ? 0x3000 : 0x110000);
      append_utf8(text, code_point >= 0xD800 && code_point < 0xE000 ? 'x' : code_point);
    }
  }
  return text;
}

TEST(Words, AreThoseOfThePatternOnRandomText) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_text(random, static_cast<int>(random() % 40));
    ASSERT_EQ(words_of(text), words_of_pcre2(text)) << text;
  }
}

TEST(Words, AreThoseOfThePatternOnRealText) {
  const MappedFile file(kTinyShakespeare);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), 300'000);
  EXPECT_EQ(words_of(text), words_of_pcre2(text));
}

TEST(Words, TakeInvalidBytesAsSymbols) {
  EXPECT_EQ(words_of("a\xff\xfe !\x80z"),
            (std::vector<std::string_view>{"a", "\xff\xfe", " !\x80", "z"}));
  // Overlong, a surrogate, above U+10FFFF, cut off.
  for (const std::string bad : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe6\x97"}) {
    EXPECT_EQ(words_of("a" + bad + "b"), (std::vector<std::string_view>{"a", bad, "b"}));
  }
}

TEST(Words, EndAtTheLimit) {
  for (const std::string unit : {"a", " ", ".", "\u65e5", "\u3000"}) {
    std::string text;
    while (text.size() < 3 * kMaxWordBytes) {
      text += unit;
    }
    const std::vector<std::string_view> words = words_of(text + "1");
    ASSERT_GE(words.size(), 4U);
    EXPECT_LE(words[0].size(), kMaxWordBytes);
    EXPECT_GT(words[0].size(), kMaxWordBytes - unit.size());
    EXPECT_EQ(words[0].size() % unit.size(), 0U);
  }
}

TEST(Words, AreTheSameOnBothSidesOfACut) {
  std::mt19937 random(2);
  int cuts = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = random_text(random, 30);
    if (round % 2 == 0) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const size_t cut = last_word_cut(std::string_view(text).substr(0, text.size() / 2));
    if (cut == 0) {
      continue;
    }
    ++cuts;
    std::vector<std::string_view> words = words_of(std::string_view(text).substr(0, cut));
    const auto behind = words_of(std::string_view(text).substr(cut));
    words.insert(words.end(), behind.begin(), behind.end());
    ASSERT_EQ(words, words_of(text)) << text << " cut at " << cut;
  }
  EXPECT_GT(cuts, 1000);
  EXPECT_EQ(last_word_cut("no_cut"), 0U);
  EXPECT_EQ(last_word_cut(" \n one two \u3000 "), 10U);
}

}  // namespace
}  // namespace zerolab::data
