#include "apps/train_gpt/text/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace zerolab::app {
namespace {

TEST(Utf8Parts, HoldABegunCharacterBack) {
  Utf8Parts parts;
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

TEST(Utf8Parts, LoseNothingHoweverTheTextIsCut) {
  const std::string text = "aé€😀ß\xFF\x80\x80\x80\x80\xC3z\xF0\x9F";
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second) {
      Utf8Parts parts;
      std::string all = parts.push(text.substr(0, first));
      all += parts.push(text.substr(first, second - first));
      all += parts.push(text.substr(second));
      EXPECT_EQ(all + parts.rest(), text);
    }
  }
}

TEST(Utf8Parts, WhatIsNoUtf8IsNotHeld) {
  Utf8Parts parts;
  EXPECT_EQ(parts.push("\xFF"), "\xFF");
  EXPECT_EQ(parts.push("\x80\x80\x80\x80"), "\x80\x80\x80\x80");
  EXPECT_EQ(parts.push("\xC3"
                       "a"),
            "\xC3"
            "a");
}

}  // namespace
}  // namespace zerolab::app
