#include "data/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace zerolab::data {
namespace {

TEST(Utf8, ReadsTheFirstAndTheLastCharacterOfEachLength) {
  for (const char32_t code_point :
       {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    std::string text = "a";
    append_utf8(text, code_point);
    const Char c = char_at(text, 1);
    EXPECT_EQ(c.code_point, code_point);
    EXPECT_EQ(c.bytes, text.size() - 1);
  }
}

TEST(Utf8, AByteThatBeginsNoCharacterStandsForItself) {
  for (const std::string text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xC3z"}) {
    const Char c = char_at(text, 0);
    EXPECT_EQ(c.code_point, kInvalidChar) << text;
    EXPECT_EQ(c.bytes, 1) << text;
  }
}

TEST(Utf8Joiner, HoldsABegunCharacterBack) {
  Utf8Joiner parts;
  EXPECT_EQ(parts.push("a\xC3"), "a");
  EXPECT_EQ(parts.push("\xA9"
                       "b"),
            "éb");
  EXPECT_EQ(parts.push("\xF0"), "");
  EXPECT_EQ(parts.push("\x9F\x98"), "");
  EXPECT_EQ(parts.push("\x80"), "😀");
  EXPECT_EQ(parts.push("\xE2\x82"), "");
  EXPECT_EQ(parts.rest(), "\xE2\x82");
  EXPECT_EQ(parts.rest(), "");
}

TEST(Utf8Joiner, LosesNothingHoweverTheTextIsCut) {
  const std::string text = "aé€😀ß\xFF\x80\x80\x80\x80\xC3z\xF0\x9F";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Utf8Joiner parts;
      std::string all = parts.push(text.substr(0, first));
      all += parts.push(text.substr(first, second - first));
      all += parts.push(text.substr(second));
      EXPECT_EQ(all + parts.rest(), text);
    }
  }
}

TEST(Utf8Joiner, WhatIsNoUtf8IsNotHeld) {
  Utf8Joiner parts;
  EXPECT_EQ(parts.push("\xFF"), "\xFF");
  EXPECT_EQ(parts.push("\x80\x80\x80\x80"), "\x80\x80\x80\x80");
  EXPECT_EQ(parts.push("\xC3"
                       "a"),
            "\xC3"
            "a");
}

}  // namespace
}  // namespace zerolab::data
